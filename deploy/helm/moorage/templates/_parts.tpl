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

{{/* Where a pod may run, from its section of the values. */}}
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

{{/* Prefers different nodes for the replicas; a single-node cluster runs them all on one. */}}
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

{{/* A process that only calls the API server needs no privileges on its node: Pod Security's "restricted". */}}
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

{{/* The process serves its probes on the metrics port. */}}
{{- define "moorage.probes" -}}
# A slow machine is not a failure: the other probes start after this one succeeds.
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

{{/* Authenticates and authorizes requests for metrics: TokenReview and SubjectAccessReview. */}}
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
