// Command bucket-server serves buckets in memory over the real protocols of Google Cloud Storage
// and of S3.
//
//	bucket-server
//
// When it listens it prints one JSON line: {"gs": "http://127.0.0.1:1", "s3":
// "http://127.0.0.1:2"}. It ends on SIGTERM or SIGINT.
//
// Both ports also take POST /lose: the next request that writes is carried out, and its answer is
// lost with the connection.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// lossy passes requests on, and loses the answer to a write when it was asked to.
type lossy struct {
	next http.Handler
	lose atomic.Int32
}

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.URL.Path == "/lose" {
		l.lose.Add(1)
		return
	}
	writes := r.Method == http.MethodPost || r.Method == http.MethodPut
	if !writes || l.lose.Load() == 0 {
		l.next.ServeHTTP(w, r)
		return
	}
	l.lose.Add(-1)
	l.next.ServeHTTP(httptest.NewRecorder(), r)
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		log.Fatal(err)
	}
	connection.Close()
}

func listen(bind string) (net.Listener, string) {
	listener, err := net.Listen("tcp", bind+":0")
	if err != nil {
		log.Fatal(err)
	}
	return listener, "http://" + listener.Addr().String()
}

func main() {
	bind := flag.String("bind", "127.0.0.1", "address to listen on")
	flag.Parse()

	gcsPort, gcsPlace := listen(*bind)
	gcs, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener: true, Scheme: "http", ExternalURL: gcsPlace,
	})
	if err != nil {
		log.Fatal(err)
	}
	s3Port, s3Place := listen(*bind)
	s3 := gofakes3.New(s3mem.New(), gofakes3.WithTimeSkewLimit(0))
	go http.Serve(gcsPort, &lossy{next: gcs.HTTPHandler()})
	go http.Serve(s3Port, &lossy{next: s3.Server()})
	json.NewEncoder(os.Stdout).Encode(map[string]string{"gs": gcsPlace, "s3": s3Place})

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
}
