// Writes two birds in one batch, reads one, and lists all.
package main

// #cgo pkg-config: koeldb
// #include <stdlib.h>
// #include <rocksdb/c.h>
import "C"

import (
	"fmt"
	"log"
	"os"
	"unsafe"
)

func check(failure *C.char) {
	if failure != nil {
		log.Fatal(C.GoString(failure))
	}
}

func put(batch *C.rocksdb_writebatch_t, key, value string) {
	k, v := C.CString(key), C.CString(value)
	defer C.free(unsafe.Pointer(k))
	defer C.free(unsafe.Pointer(v))
	C.rocksdb_writebatch_put(batch, k, C.size_t(len(key)), v, C.size_t(len(value)))
}

func main() {
	directory := "birds.db"
	if len(os.Args) > 1 {
		directory = os.Args[1]
	}
	path := C.CString(directory)
	defer C.free(unsafe.Pointer(path))
	var failure *C.char
	options := C.rocksdb_options_create()
	defer C.rocksdb_options_destroy(options)
	C.rocksdb_options_set_create_if_missing(options, 1)
	db := C.rocksdb_open(options, path, &failure)
	check(failure)
	defer C.rocksdb_close(db)

	batch := C.rocksdb_writebatch_create()
	defer C.rocksdb_writebatch_destroy(batch)
	put(batch, "koel", "Eudynamys")
	put(batch, "ani", "Crotophaga")
	writing := C.rocksdb_writeoptions_create()
	defer C.rocksdb_writeoptions_destroy(writing)
	C.rocksdb_writeoptions_set_sync(writing, 1)
	C.rocksdb_write(db, writing, batch, &failure)
	check(failure)

	reading := C.rocksdb_readoptions_create()
	defer C.rocksdb_readoptions_destroy(reading)
	key := C.CString("koel")
	defer C.free(unsafe.Pointer(key))
	var length C.size_t
	value := C.rocksdb_get(db, reading, key, 4, &length, &failure)
	check(failure)
	fmt.Printf("koel: %s\n", C.GoStringN(value, C.int(length)))
	C.rocksdb_free(unsafe.Pointer(value))

	birds := C.rocksdb_create_iterator(db, reading)
	defer C.rocksdb_iter_destroy(birds)
	C.rocksdb_iter_seek_to_first(birds)
	for C.rocksdb_iter_valid(birds) != 0 {
		var keyLength, nameLength C.size_t
		key := C.rocksdb_iter_key(birds, &keyLength)
		name := C.rocksdb_iter_value(birds, &nameLength)
		fmt.Printf("%s = %s\n", C.GoStringN(key, C.int(keyLength)), C.GoStringN(name, C.int(nameLength)))
		C.rocksdb_iter_next(birds)
	}
	C.rocksdb_iter_get_error(birds, &failure)
	check(failure)
}
