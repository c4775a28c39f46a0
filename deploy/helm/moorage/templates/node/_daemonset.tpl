{{/*
One DaemonSet: the agent on the nodes that share one configuration.
Takes a dict: root, name, config (its ConfigMap, or "" if lvmd runs on the machine), deviceClasses, placement.
*/}}
{{- define "moorage.nodeDaemonSet" -}}
{{- $ := .root }}
{{- $node := $.Values.node }}
{{- $kubelet := $node.kubeletWorkDirectory }}
{{- $pluginDir := printf "%s/plugins/topolvm.io/node" $kubelet }}
{{- $prefix := $.Values.lvmd.lvmCommandPrefix }}
{{- $directories := list }}
{{- $usesLvm := false }}
{{- range .deviceClasses }}
  {{- if eq (.type | default "thick") "file" }}
    {{- $directories = append $directories .path }}
  {{- else }}
    {{- $usesLvm = true }}
  {{- end }}
{{- end }}
{{- $usesLvmOfNode := and $usesLvm (or (not $prefix) (has "nsenter" (splitList "/" (first (default (list "nsenter") $prefix))))) }}
{{- $usesLvmOfImage := and $usesLvm (not $usesLvmOfNode) }}
{{- $isNone := list "0" "0%" }}
{{- $endsFirst := not (has (toString $node.maxUnavailable) $isNone) }}
{{- if and (not $endsFirst) (has (toString $node.maxSurge) $isNone) }}
{{- fail "no agent could ever be upgraded: set node.maxSurge, or node.maxUnavailable, to more than 0" }}
{{- end }}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name }}
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "moorage.labels" $ | nindent 4 }}
    app.kubernetes.io/component: node
spec:
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      # The next agent is started beside the one that serves and stands by. Only when it is ready is that one ended, and the
      # next takes over at once. One of the two figures has to be 0.
      maxSurge: {{ $endsFirst | ternary 0 $node.maxSurge }}
      maxUnavailable: {{ $node.maxUnavailable }}
  selector:
    matchLabels:
      app.kubernetes.io/component: node
      app.kubernetes.io/instance: {{ .name }}
      app.kubernetes.io/name: moorage
  template:
    metadata:
      labels:
        {{- include "moorage.labels" $ | nindent 8 }}
        app.kubernetes.io/component: node
        app.kubernetes.io/instance: {{ .name }}
        {{- with $node.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $node.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: moorage-node
      {{- with include "moorage.pullSecrets" $ | trim }}{{ . | nindent 6 }}{{ end }}
      {{- with include "moorage.priorityClass" $ | trim }}{{ . | nindent 6 }}{{ end }}
      {{- with include "moorage.placement" .placement | trim }}{{ . | nindent 6 }}{{ end }}
      {{- with .placement.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $usesLvmOfNode }}
      # LVM is the node's own: nsenter finds the node's namespaces by its first process.
      hostPID: true
      {{- end }}
      {{- if $usesLvmOfImage }}
      # LVM and the node's udev wait for each other with a semaphore that both must see.
      hostIPC: true
      {{- end }}
      # Changes under way get 20 s to end.
      terminationGracePeriodSeconds: 30
      containers:
        - name: node
          image: {{ include "moorage.image" $ }}
          imagePullPolicy: {{ $.Values.image.pullPolicy }}
          args:
            - node
            - --csi-socket={{ $pluginDir }}/csi-topolvm.sock
            - --kubelet-dir={{ $kubelet }}
            - --lvmd-socket={{ $node.lvmdSocket }}
            {{- if not .config }}
            - --embed-lvmd=false
            {{- end }}
            {{- with $node.inlineVolumes }}
            - --inline-volumes={{ .enabled }}
            - --inline-device-classes={{ join "," .deviceClasses }}
            - --inline-max-size={{ .maxSize }}
            {{- end }}
            {{- if $directories }}
            - --state-dir={{ $pluginDir }}
            {{- end }}
            - --metrics-addr=:8080
            {{- if $.Values.metrics.secure }}
            - --secure-metrics-server
            {{- end }}
            - --log-level={{ $node.logLevel }}
          env:
            - name: NODE_NAME
              valueFrom:
                fieldRef:
                  fieldPath: spec.nodeName
          ports:
            - name: metrics
              containerPort: 8080
          {{- include "moorage.probes" $ | nindent 10 }}
          resources:
            {{- toYaml $node.resources | nindent 12 }}
          securityContext:
            # What is mounted here has to appear on the node (Bidirectional, below), which Kubernetes grants to privileged
            # containers only. It is needed for the devices of volumes that do not exist yet, too.
            privileged: true
            runAsUser: 0
            readOnlyRootFilesystem: true
          volumeMounts:
            # The kubelet calls the agent on its socket here …
            - name: plugin
              mountPath: {{ $pluginDir }}
            # … and learns here that there is one: no registrar is needed.
            - name: registration
              mountPath: {{ $kubelet }}/plugins_registry
            # Volumes are mounted once below this one, for the node …
            - name: staging
              mountPath: {{ $kubelet }}/plugins/kubernetes.io/csi
              mountPropagation: Bidirectional
            # … and from there into each pod.
            - name: pods
              mountPath: {{ $kubelet }}/pods
              mountPropagation: Bidirectional
            # The devices of volumes, as they come and go.
            - name: devices
              mountPath: /dev
            # The control groups of pods, for limits on a volume's reads and writes (io.max).
            - name: cgroups
              mountPath: /sys/fs/cgroup
            # lvmd's socket: of the machine's own lvmd, or for people on the node.
            - name: lvmd
              mountPath: {{ dir $node.lvmdSocket }}
            # What LVM and cryptsetup need while they run.
            - name: run
              mountPath: /run
            {{- if .config }}
            - name: config
              mountPath: /etc/topolvm
              readOnly: true
            {{- end }}
            {{- range $index, $path := $directories | uniq }}
            # A device class of files.
            - name: files-{{ $index }}
              mountPath: {{ $path }}
              # A disk that is mounted there later is seen without a restart.
              mountPropagation: HostToContainer
            {{- end }}
            {{- if $usesLvmOfImage }}
            # What udev knows of devices.
            - name: udev
              mountPath: /run/udev
              readOnly: true
            # LVM's locks, so that it and an LVM on the node never work at the same time.
            - name: lvm-locks
              mountPath: /run/lock/lvm
            # Copies that LVM makes of its metadata before a change. The metadata itself is on the disks.
            - name: lvm-copies
              mountPath: /etc/lvm/archive
              subPath: archive
            - name: lvm-copies
              mountPath: /etc/lvm/backup
              subPath: backup
            {{- end }}
      volumes:
        - name: plugin
          hostPath:
            path: {{ $pluginDir }}
            type: DirectoryOrCreate
        - name: registration
          hostPath:
            path: {{ $kubelet }}/plugins_registry
            type: Directory
        - name: staging
          hostPath:
            path: {{ $kubelet }}/plugins/kubernetes.io/csi
            type: DirectoryOrCreate
        - name: pods
          hostPath:
            path: {{ $kubelet }}/pods
            type: Directory
        - name: devices
          hostPath:
            path: /dev
            type: Directory
        - name: cgroups
          hostPath:
            path: /sys/fs/cgroup
            type: Directory
        - name: lvmd
          hostPath:
            path: {{ dir $node.lvmdSocket }}
            type: DirectoryOrCreate
        - name: run
          emptyDir:
            medium: Memory
        {{- with .config }}
        - name: config
          configMap:
            name: {{ . }}
        {{- end }}
        {{- range $index, $path := $directories | uniq }}
        - name: files-{{ $index }}
          hostPath:
            path: {{ $path }}
            type: DirectoryOrCreate
        {{- end }}
        {{- if $usesLvmOfImage }}
        - name: udev
          hostPath:
            path: /run/udev
            type: Directory
        - name: lvm-locks
          hostPath:
            path: /run/lock/lvm
            type: DirectoryOrCreate
        - name: lvm-copies
          emptyDir: {}
        {{- end }}
{{- end }}
