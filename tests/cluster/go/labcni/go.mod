module holdfast.dev/tests/cluster/labcni

go 1.24
