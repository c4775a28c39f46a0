{{- define "moorage.localPv.defaults" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: moorage-local-pv
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "moorage.labels" . | nindent 4 }}
data:
  # Changes apply without a restart; see docs/static-volumes.md.
  defaults.yaml: |
    {{- pick .Values.localPv "defaults" "storageClasses" | toYaml | nindent 4 }}
{{- end }}
