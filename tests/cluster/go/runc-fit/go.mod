module holdfast.dev/tests/cluster/runc-fit

go 1.24
