//go:build tools

// Package tools names the program that this module exists to build. Every library that it shares with Kubernetes is
// pinned to Kubernetes' version, so that all builds share one cache.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
