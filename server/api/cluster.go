package api

import (
	"errors"
	"fmt"
	"net/http"

	"klatch/cluster"
	"klatch/server/problem"
)

// memberBody is a member as the API shows it.
type memberBody struct {
	Name    string `json:"name"`
	Address string `json:"address"` // of gossip
	HTTP    string `json:"http"`
	Admin   string `json:"admin"`
	Release string `json:"release"`
	State   string `json:"state"`
	Self    bool   `json:"self"`
}

func (a *API) getCluster(w http.ResponseWriter, _ *http.Request) {
	ready, state := a.Node.Ready()
	members := []memberBody{}
	for _, m := range a.Membership.Members() {
		members = append(members, memberBody{
			Name:    m.Name,
			Address: m.Address,
			HTTP:    m.Meta.HTTP,
			Admin:   m.Meta.Admin,
			Release: m.Meta.Release,
			State:   m.StateName(),
			Self:    m.Self,
		})
	}
	a.writeJSON(w, http.StatusOK, map[string]any{
		"node":    a.Node.Name(),
		"ready":   ready,
		"state":   state,
		"members": members,
	})
}

func (a *API) joinCluster(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Addresses []string `json:"addresses"`
	}
	if !a.readJSON(w, r, &body) {
		return
	}
	if len(body.Addresses) == 0 || len(body.Addresses) > 64 {
		problem.BadRequest(`Field "addresses" must list 1 to 64 gossip addresses, such as "10.0.0.7:7946".`).Write(w)
		return
	}
	joined, err := a.Membership.Join(r.Context(), body.Addresses...)
	if err != nil && joined == 0 {
		problem.Problem{
			Name: "join-failed", Status: http.StatusBadGateway, Title: "No node could be joined",
			Detail: err.Error() + ". Give the gossip address of a running node of this cluster.",
		}.Write(w)
		return
	}
	a.writeJSON(w, http.StatusOK, map[string]any{"joined": joined})
}

// forgetMember makes all nodes forget one that is gone for good.
func (a *API) forgetMember(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Name string `json:"name"`
	}
	if !knownParameters(w, r) || !a.readJSON(w, r, &body) {
		return
	}
	if body.Name == "" {
		problem.BadRequest(`Field "name" must be the name of a node.`).Write(w)
		return
	}
	err := a.Membership.Forget(r.Context(), body.Name)
	switch {
	case errors.Is(err, cluster.ErrAlive):
		problem.Problem{
			Name: "node-alive", Status: http.StatusConflict, Title: "The node is alive",
			Detail: fmt.Sprintf("%s is a live member. Make it leave by POST /v1/cluster/leave on its own admin listener.", body.Name),
		}.Write(w)
	case err != nil:
		problem.Problem{
			Name: "not-forgotten", Status: http.StatusServiceUnavailable, Title: "Not all nodes have forgotten it", RetryAfter: 1,
			Detail: err.Error() + ". Try again.",
		}.Write(w)
	default:
		a.writeJSON(w, http.StatusOK, map[string]any{"forgotten": body.Name})
	}
}

// leave makes this node finish, leave the cluster and exit.
func (a *API) leave(waitForBalancers bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		a.Node.Drain(waitForBalancers)
		a.writeJSON(w, http.StatusAccepted, map[string]any{"node": a.Node.Name(), "state": "draining"})
	}
}
