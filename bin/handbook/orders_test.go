package orders

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

var service = os.Getenv("ASSETLOG_URL")

func ask(t *testing.T, method, path, body string) string {
	request, _ := http.NewRequest(method, service+path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, _ := io.ReadAll(reply.Body)
	if reply.StatusCode != 200 {
		t.Fatalf("%s: %s", path, text)
	}
	return string(text)
}

func TestTheLoadTriesAgain(t *testing.T) {
	ask(t, "POST", "/test/reset", "")
	ask(t, "PUT", "/test/faults", `{"faults": [{"times": 2, "then": {"status": 503, "retry_after": 0}}]}`)
	if err := LoadOrders(service); err != nil { // the code under test
		t.Fatal(err)
	}
	if events := ask(t, "GET", "/events?key=warehouse/orders", ""); strings.Count(events, "\n") != 1 {
		t.Error(events)
	}
}
