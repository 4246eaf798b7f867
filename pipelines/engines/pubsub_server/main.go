// Command pubsub-server is a Pub/Sub server in memory that speaks the real gRPC protocol.
//
//	pubsub-server -port 8085 -admin 8086
//
// Ports may be 0 (choose a free one). When it listens it prints one JSON line:
// {"host": "127.0.0.1:8085", "admin": "127.0.0.1:8086"}. It ends on SIGTERM or
// SIGINT.
//
// The admin port speaks HTTP and JSON:
//
//	GET  /health                 {"serving": true}
//	GET  /counts[?topic=NAME]    messages, deliveries, acks, unacked (never acked once)
//	GET  /messages[?topic=NAME]  one object a line, in order of publishing; data is base64
//	POST /clear                  forgets every message
//	POST /down                   closes all connections and refuses new ones; keeps every message
//	POST /up                     serves again
//
// A topic is named in full or by its last part.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	pb "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc"
)

// largest is the size of a request in bytes: Pub/Sub takes 10 MB, and the envelope comes on top.
const largest = 16 << 20

// front serves the messages of a store on one address, and can be shut and opened again.
type front struct {
	mu      sync.Mutex
	store   *pstest.Server
	address string
	server  *grpc.Server
}

func (f *front) up() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.server != nil {
		return nil
	}
	listener, err := net.Listen("tcp", f.address)
	if err != nil {
		return err
	}
	f.address = listener.Addr().String()
	f.server = grpc.NewServer(grpc.MaxRecvMsgSize(largest))
	pb.RegisterPublisherServer(f.server, &f.store.GServer)
	pb.RegisterSubscriberServer(f.server, &f.store.GServer)
	pb.RegisterSchemaServiceServer(f.server, &f.store.GServer)
	go f.server.Serve(listener)
	return nil
}

func (f *front) down() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.server != nil {
		f.server.Stop()
		f.server = nil
	}
}

func (f *front) serving() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.server != nil
}

// asked tells whether a message belongs to the topic that a request names, or to any.
func asked(r *http.Request, m *pstest.Message) bool {
	topic := r.URL.Query().Get("topic")
	return topic == "" || m.Topic == topic || strings.HasSuffix(m.Topic, "/topics/"+topic)
}

func (f *front) counts(w http.ResponseWriter, r *http.Request) {
	total := map[string]int{"messages": 0, "deliveries": 0, "acks": 0, "unacked": 0}
	for _, m := range f.store.Messages() {
		if !asked(r, m) {
			continue
		}
		total["messages"]++
		total["deliveries"] += m.Deliveries
		total["acks"] += m.Acks
		if m.Acks == 0 {
			total["unacked"]++
		}
	}
	json.NewEncoder(w).Encode(total)
}

func (f *front) messages(w http.ResponseWriter, r *http.Request) {
	out := json.NewEncoder(w)
	for _, m := range f.store.Messages() {
		if !asked(r, m) {
			continue
		}
		out.Encode(map[string]any{
			"id": m.ID, "topic": m.Topic, "attributes": m.Attributes, "key": m.OrderingKey,
			"published": m.PublishTime.UTC().Format(time.RFC3339Nano), "data": m.Data,
			"deliveries": m.Deliveries, "acks": m.Acks, "modacks": len(m.Modacks),
		})
	}
}

func (f *front) admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /counts", f.counts)
	mux.HandleFunc("GET /messages", f.messages)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]bool{"serving": f.serving()})
	})
	mux.HandleFunc("POST /clear", func(_ http.ResponseWriter, _ *http.Request) {
		f.store.ClearMessages()
	})
	mux.HandleFunc("POST /down", func(_ http.ResponseWriter, _ *http.Request) { f.down() })
	mux.HandleFunc("POST /up", func(w http.ResponseWriter, _ *http.Request) {
		if err := f.up(); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	return mux
}

func main() {
	bind := flag.String("bind", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 8085, "port of the Pub/Sub protocol; 0 chooses one")
	adminPort := flag.Int("admin", 8086, "port of the admin pages; 0 chooses one")
	flag.Parse()

	f := &front{store: pstest.NewServer(), address: fmt.Sprintf("%s:%d", *bind, *port)}
	defer f.store.Close()
	if err := f.up(); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", *bind, *adminPort))
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(listener, f.admin())
	json.NewEncoder(os.Stdout).Encode(
		map[string]string{"host": f.address, "admin": listener.Addr().String()})

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	f.down()
}
