{{/* What static volumes add to an agent. Each takes the values of localPv. */}}
{{- define "moorage.localPv.nodeArgs" -}}
- --local-pv
- --local-pv-mount-base={{ .mountBase }}
- --local-pv-mounts={{ .mounts }}
- --local-pv-defaults=moorage-local-pv
{{- if .release }}
- --release
{{- end }}
{{- end }}

{{- define "moorage.localPv.nodeMounts" -}}
# Static volumes are mounted here, in a directory that is empty after a boot.
- name: static-mounts
  mountPath: /run/moorage/local-pv
  mountPropagation: Bidirectional
# The paths of static volumes, which lead there. Mounts that k8s-local-pv has made are here.
- name: static-paths
  mountPath: {{ .mountBase }}
  mountPropagation: Bidirectional
{{- end }}

{{- define "moorage.localPv.nodeVolumes" -}}
- name: static-mounts
  hostPath:
    path: /run/moorage/local-pv
    type: DirectoryOrCreate
- name: static-paths
  hostPath:
    path: {{ .mountBase }}
    type: DirectoryOrCreate
{{- end }}

{{- define "moorage.localPv.controllerArgs" -}}
- --local-pv
- --local-pv-mount-base={{ .mountBase }}
- --local-pv-defaults=moorage-local-pv
{{- end }}
