module example.org/unpacked

go 1.21
