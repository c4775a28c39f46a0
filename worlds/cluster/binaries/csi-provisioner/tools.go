//go:build tools

// Package tools names the program that this module exists to build. It is a module of its own because the newest
// csi-provisioner to be had needs an older k8s.io/csi-translation-lib than Kubernetes itself; every other shared
// library is pinned to Kubernetes' version, so that both builds share one cache.
package tools

import _ "github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner"
