// The same idea in another language: net/http, and one goroutine that gathers what has arrived, writes and syncs it as
// one, and lets the replies go. It checks a report about as assetlog does, and its lines are assetlog's.
// The argument is the journal's folder. Prints its address.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

const (
	bodyBytesMax  = 1 << 20
	batchBytesMax = 4 << 20
	waitingMax    = 4096
)

type report struct {
	AssetKey    json.RawMessage `json:"asset_key"`
	Partition   *string         `json:"partition"`
	Description *string         `json:"description"`
	DataVersion *string         `json:"data_version"`
	Metadata    json.RawMessage `json:"metadata"`
}

type waiting struct {
	members []byte
	done    chan error
}

// membersOf checks a body and gives the part of its line that the report decides.
func membersOf(body []byte) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not UTF-8")
	}
	var r report
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	key, err := keyOf(r.AssetKey)
	if err != nil {
		return nil, err
	}
	var members bytes.Buffer
	members.WriteString(`"type":"AssetMaterialization","asset_key":`)
	members.Write(key)
	for _, member := range []struct {
		value         *string
		before, after string
	}{
		{r.Partition, `,"partition":`, ``},
		{r.Description, `,"description":`, ``},
		{r.DataVersion, `,"tags":{"data_version":`, `}`},
	} {
		if member.value == nil {
			continue
		}
		members.WriteString(member.before)
		members.Write(quote(*member.value))
		members.WriteString(member.after)
	}
	if len(r.Metadata) > 0 && string(r.Metadata) != "null" {
		if r.Metadata[0] != '{' {
			return nil, errors.New("metadata must be an object")
		}
		members.WriteString(`,"metadata":`)
		if err := json.Compact(&members, r.Metadata); err != nil {
			return nil, err
		}
	}
	return members.Bytes(), nil
}

func keyOf(raw json.RawMessage) ([]byte, error) {
	var parts []string
	var single string
	if json.Unmarshal(raw, &single) == nil {
		parts = []string{single}
	} else if err := json.Unmarshal(raw, &parts); err != nil || len(parts) == 0 {
		return nil, errors.New("asset_key must be a string or an array of strings")
	}
	var key bytes.Buffer
	for i, part := range parts {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			return nil, errors.New("a part of asset_key is empty or holds a control character")
		}
		key.WriteByte("[,"[min(i, 1)])
		key.Write(quote(part))
	}
	key.WriteByte(']')
	return key.Bytes(), nil
}

func quote(text string) []byte {
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	encoder.Encode(text)
	return bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))
}

// commit owns the file: nothing else writes to it.
func commit(file *os.File, arriving <-chan waiting) {
	seq, crc := 1, uint32(0)
	for first := range arriving {
		batch := gather(first, arriving)
		now := time.Now().UTC()
		var text []byte
		for _, one := range batch {
			start := len(text)
			text = fmt.Appendf(text, `{"seq":%d,"id":"%s","time":"%s",`, seq, uuid(now), now.Format("2006-01-02T15:04:05.000Z"))
			text = append(text, one.members...)
			crc = crc32.Update(crc, crc32.IEEETable, text[start:])
			text = fmt.Appendf(text, ",\"crc\":\"%08x\"}\n", crc)
			seq++
		}
		_, err := file.Write(text)
		if err == nil {
			err = syscall.Fdatasync(int(file.Fd()))
		}
		for _, one := range batch {
			one.done <- err
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}

// gather takes along what has arrived by now, without waiting for more.
func gather(first waiting, arriving <-chan waiting) []waiting {
	batch, size := []waiting{first}, len(first.members)
	for size < batchBytesMax {
		select {
		case next := <-arriving:
			batch, size = append(batch, next), size+len(next.members)
		default:
			return batch
		}
	}
	return batch
}

func uuid(now time.Time) string {
	var id [16]byte
	rand.Read(id[6:])
	for i, milliseconds := 5, now.UnixMilli(); i >= 0; i, milliseconds = i-1, milliseconds>>8 {
		id[i] = byte(milliseconds)
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

func refuse(w http.ResponseWriter, status int, err error) {
	problem, _ := json.Marshal(map[string]string{"error": err.Error()})
	answer(w, status, string(problem))
}

func main() {
	file, err := os.OpenFile(filepath.Join(os.Args[1], "events-00000000000000000001.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	arriving := make(chan waiting, waitingMax)
	go commit(file, arriving)
	http.HandleFunc("POST /report_asset_materialization/", func(w http.ResponseWriter, req *http.Request) {
		if kind, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";"); !strings.EqualFold(kind, "application/json") {
			refuse(w, http.StatusBadRequest, errors.New("Content-Type must be application/json"))
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, bodyBytesMax))
		if err != nil {
			refuse(w, http.StatusRequestEntityTooLarge, err)
			return
		}
		members, err := membersOf(body)
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		done := make(chan error, 1)
		arriving <- waiting{members, done}
		if err := <-done; err != nil {
			refuse(w, http.StatusServiceUnavailable, err)
			return
		}
		answer(w, http.StatusOK, "{}")
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}
