// Serves the original of a packed file over HTTP, with range requests:
//
//	unpacked MODEL.zstn ADDRESS
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"example.org/unpacked/zstn"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: unpacked MODEL.zstn ADDRESS")
	}
	file, err := zstn.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	status, err := os.Stat(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	// The SHA-256 in a packed file is a claim of the program that packed it. Compare
	// the restored bytes with it before using it to identify them.
	tag := fmt.Sprintf(`"%x-%x"`, status.Size(), status.ModTime().UnixNano())
	listener, err := net.Listen("tcp", os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		w.Header().Set("Content-Type", "application/octet-stream")
		content := io.NewSectionReader(file, 0, file.Size)
		http.ServeContent(w, r, "", time.Time{}, content)
	})))
}
