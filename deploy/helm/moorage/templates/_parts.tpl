{{- define "moorage.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "moorage.labels" -}}
app.kubernetes.io/name: moorage
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "moorage.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "moorage.priorityClass" -}}
{{- if .Values.priorityClass.enabled }}
priorityClassName: {{ .Values.priorityClass.name }}
{{- end }}
{{- end }}

{{/* Where a pod may run, as its part of the values says. */}}
{{- define "moorage.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Replicas on different nodes where there are several; all on one where there is but one. */}}
{{- define "moorage.spread" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app.kubernetes.io/component: {{ . }}
            app.kubernetes.io/name: moorage
{{- end }}

{{/* A process that only speaks with the API server needs no right on its node at all: Pod Security's "restricted". */}}
{{- define "moorage.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "moorage.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "moorage.probeScheme" -}}
scheme: {{ .Values.metrics.secure | ternary "HTTPS" "HTTP" }}
{{- end }}

{{/* The agent serves them itself, beside its metrics. */}}
{{- define "moorage.probes" -}}
# However slow the machine is: until it has started, nothing is wrong.
startupProbe:
  httpGet:
    path: /healthz
    port: metrics
    {{- include "moorage.probeScheme" . | nindent 4 }}
  periodSeconds: 1
  failureThreshold: 300
livenessProbe:
  httpGet:
    path: /healthz
    port: metrics
    {{- include "moorage.probeScheme" . | nindent 4 }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
    {{- include "moorage.probeScheme" . | nindent 4 }}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/* To ask the API server whose token it is that comes with a request for metrics, and what its owner may. */}}
{{- define "moorage.tokenReviewRules" -}}
{{- if .Values.metrics.secure }}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- end }}
