module holdfast.dev/tests/cluster/pause

go 1.24
