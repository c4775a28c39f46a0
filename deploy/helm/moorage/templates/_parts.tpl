{{- define "moorage.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The version in the tag of an image, such as 5.3.0. Empty if there is none, as in :latest or with a digest only. */}}
{{- define "moorage.imageVersion" -}}
{{- $tag := regexReplaceAll "@.*$" . "" | regexFind ":v?[0-9]+[.][0-9]+[^:/]*$" }}
{{- regexFind "[0-9]+[.][0-9]+([.][0-9]+)?" $tag }}
{{- end }}

{{/*
Whether a sidecar acts on VolumeAttributesClasses. Its version .since reads their API v1, which Kubernetes 1.34 and newer serve, and
needs no flag; older versions read v1beta1, which few clusters serve, and need a feature gate.
  on: by itself   gate: with the feature gate   off: not on this cluster   unknown: its image does not tell its version
*/}}
{{- define "moorage.attributesClasses" -}}
{{- $version := include "moorage.imageVersion" .image }}
{{- if not $version }}unknown
{{- else if semverCompare (printf ">=%s" .since) $version }}
{{- semverCompare ">=1.34.0-0" .capabilities.KubeVersion.Version | ternary "on" "off" }}
{{- else }}
{{- .capabilities.APIVersions.Has "storage.k8s.io/v1beta1/VolumeAttributesClass" | ternary "gate" "off" }}
{{- end }}
{{- end }}

{{- define "moorage.classesOfProvisioner" -}}
{{- include "moorage.attributesClasses" (dict "image" .Values.image.csi.csiProvisioner "since" "6.0.0" "capabilities" .Capabilities) }}
{{- end }}

{{- define "moorage.classesOfResizer" -}}
{{- include "moorage.attributesClasses" (dict "image" .Values.image.csi.csiResizer "since" "2.0.0" "capabilities" .Capabilities) }}
{{- end }}

{{/* The webhooks that the API server calls; empty if there are none. */}}
{{- define "moorage.webhooks" -}}
{{- $all := dict "podMutatingWebhook" "pods" "evictions" "evictions" "classes" "classes" "changes" "changes" }}
{{- $on := list }}
{{- range $value, $name := $all }}
{{- if dig $value "enabled" false ($.Values.webhook | default dict) }}{{ $on = append $on $name }}{{ end }}
{{- end }}
{{- join " " $on }}
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

{{/*
For the controller: Kubernetes would wait five minutes before it replaces a pod of a lost node. These tolerations come first,
because the first one that matches a taint counts; one in the values with the same key takes their place.
*/}}
{{- define "moorage.replaceablePlacement" -}}
{{- $own := list }}
{{- range .tolerations }}{{ $own = append $own .key }}{{ end }}
{{- $tolerations := list }}
{{- range $key := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" }}
{{- if not (has $key $own) }}
{{- $tolerations = append $tolerations (dict "key" $key "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" 30) }}
{{- end }}
{{- end }}
{{- include "moorage.placement" (merge (dict "tolerations" (concat $tolerations .tolerations)) .) }}
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

{{/* Call this before anything else looks at what TopoLVM has left in the cluster: helm reports only the first problem. */}}
{{- define "moorage.topolvmMustBeStopped" -}}
{{- range $kind := list "DaemonSet" "Deployment" }}
{{- range (lookup "apps/v1" $kind "" "").items }}
{{- if eq (dig "metadata" "labels" "app.kubernetes.io/name" "" .) "topolvm" }}
{{- fail (printf "TopoLVM is still running, as %s %s in namespace %s, and serves the same volumes; docs/migrating-from-topolvm.md says how to stop it without losing volumes" $kind .metadata.name .metadata.namespace) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
