//go:build tools

// Package tools names the program that this module exists to build: TopoLVM's own, to be measured beside ours.
package tools

import _ "github.com/topolvm/topolvm/cmd/hypertopolvm"
