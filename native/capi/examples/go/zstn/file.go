// Package zstn reads packed checkpoints as the files that were packed.
package zstn

/*
#cgo pkg-config: libzstn
#include <stdlib.h>
#include <zstn.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"io"
	"unsafe"
)

// File is the safetensors file that a packed file restores. Any number of
// goroutines may read from it at the same time.
type File struct {
	reader *C.zstn_reader
	// Size is the length of the file in bytes.
	Size int64
	// SHA256 is its digest in hex, or "" if the packed file does not contain one.
	SHA256 string
}

// check converts a status to an error. The caller owns the error structure, because
// the goroutine may continue on another thread between the call and this function.
func check(status C.zstn_status, reason *C.zstn_error) error {
	if status == C.ZSTN_OK {
		return nil
	}
	return errors.New(C.GoString(&reason.message[0]))
}

// Open opens a packed file.
func Open(path string) (*File, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var reason C.zstn_error
	file := new(File)
	if err := check(C.zstn_open_path(name, nil, &file.reader, &reason), &reason); err != nil {
		return nil, err
	}
	var unpacked C.zstn_unpacked
	unpacked.struct_size = C.sizeof_zstn_unpacked
	if err := check(C.zstn_unpacked_describe(file.reader, &unpacked, &reason), &reason); err != nil {
		file.Close()
		return nil, err
	}
	file.Size = int64(unpacked.len)
	if unpacked.has_sha256 != 0 {
		file.SHA256 = fmt.Sprintf("%x", C.GoBytes(unsafe.Pointer(&unpacked.sha256[0]), 32))
	}
	return file, nil
}

// ReadAt implements io.ReaderAt.
func (file *File) ReadAt(buffer []byte, offset int64) (int, error) {
	if offset < 0 || offset >= file.Size {
		return 0, io.EOF
	}
	var end error
	if int64(len(buffer)) > file.Size-offset {
		buffer = buffer[:file.Size-offset]
		end = io.EOF
	}
	if len(buffer) == 0 {
		return 0, end
	}
	var reason C.zstn_error
	status := C.zstn_unpacked_read_at(file.reader, C.uint64_t(offset),
		unsafe.Pointer(&buffer[0]), C.size_t(len(buffer)), &reason)
	if err := check(status, &reason); err != nil {
		return 0, err
	}
	return len(buffer), end
}

// Close frees the file. No goroutine may be reading from it.
func (file *File) Close() {
	C.zstn_reader_free(file.reader)
	file.reader = nil
}
