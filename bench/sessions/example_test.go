package sessions_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"

	"klatch/bench/sessions"
)

// A run against an application that knows one session.
func ExampleMain() {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "klatch", Value: "id~100.n1"})
		fmt.Fprint(w, `{"node":"n1","session":"8d85aaaa","version":"100","attributes":10}`)
	}))
	defer app.Close()

	var out strings.Builder
	code := sessions.Main(context.Background(), []string{"-b", app.URL, "-ct", "2", "-ci", "5", "-ur", "0"}, &out, os.Stderr)

	fmt.Println("exit code", code)
	fmt.Println(strings.Join(regexp.MustCompile(`ERRORS: \d+|[A-Z]+ count: \d+`).FindAllString(out.String(), -1), "\n"))
	// Output:
	// exit code 0
	// ERRORS: 0
	// CREATE count: 1
	// REFRESH count: 10
	// DELETE count: 1
}
