# The image holds the static binary and the authorities of the system, and nothing else: no shell, no user but one
# without rights. docs/deploy.md says how to use it.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.release=$VERSION" -o /out/klatch ./cmd/klatch \
 && mkdir /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/klatch /klatch
COPY --from=build --chown=65532:65532 /out/data /var/lib/klatch
USER 65532:65532
WORKDIR /var/lib/klatch
# 7070 API, 7071 admin API, 7946 gossip (TCP and UDP), 8080 the test application where it is asked for
EXPOSE 7070 7071 7946 7946/udp 8080
STOPSIGNAL SIGTERM
# Ready, as balancers see it. A node that drains, or that has not reached its store yet, is unhealthy.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["/klatch", "health"]
ENTRYPOINT ["/klatch"]
CMD ["serve"]
