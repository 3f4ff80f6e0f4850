module speedwell

go 1.21
