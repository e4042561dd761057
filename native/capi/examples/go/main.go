// Serves the file that a packed one restores, with ranges:
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
	// The SHA-256 in a packed file is a claim of whoever packed it: nobody should
	// identify bytes by it before comparing them.
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
