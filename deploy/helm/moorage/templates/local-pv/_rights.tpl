{{/* Binds a role to a ServiceAccount. Takes a dict: root, kind (Role or ClusterRole), name, account. */}}
{{- define "moorage.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- if eq .kind "Role" }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "moorage.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* What static volumes need besides the other rights of controller and agents. */}}
{{- define "moorage.localPv.rights" -}}
{{- $names := dict "controller" "moorage-controller-static-volumes" "node" "moorage-node-static-volumes" -}}
# The controller finds the node of each static volume, and writes node, finalizer and claimRef of its PersistentVolume.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $names.controller }}
  labels:
    {{- include "moorage.labels" . | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [persistentvolumes]
    verbs: [list, watch, patch]
  - apiGroups: [""]
    resources: [nodes]
    verbs: [get, list, watch]
  - apiGroups: [events.k8s.io]
    resources: [events]
    verbs: [create]
---
# Defaults for static volumes.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $names.controller }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "moorage.labels" . | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [configmaps]
    resourceNames: [moorage-local-pv]
    verbs: [list, watch]
---
# An agent writes the status of the static volumes of its node; its policy restricts it to these.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $names.node }}
  labels:
    {{- include "moorage.labels" . | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [persistentvolumes]
    verbs: [get, list, watch, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $names.node }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "moorage.labels" . | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [configmaps]
    resourceNames: [moorage-local-pv]
    verbs: [list, watch]
  {{- with .Values.localPv.cryptSecrets }}
  # Keys of encrypted static volumes: exactly these Secrets, for every agent.
  - apiGroups: [""]
    resources: [secrets]
    resourceNames:
      {{- toYaml . | nindent 6 }}
    verbs: [get]
  {{- end }}
{{- range $component, $name := $names }}
{{- range $kind := list "ClusterRole" "Role" }}
---
{{ include "moorage.roleBinding" (dict "root" $ "kind" $kind "name" $name "account" (printf "moorage-%s" $component)) }}
{{- end }}
{{- end }}
{{- end }}
