module birds

go 1.21
