{{/*
One DaemonSet: the agent on the nodes that share one configuration.
Takes a dict with root, name, placement, and
  csi               whether it serves CSI, or static volumes only
  localPv           the values for static volumes, or an empty dict if it does not serve them
  engine            whether the storage engine runs in the agent, or lvmd on the machine
  config            the engine's ConfigMap, or "" for none
  deviceClasses, lvmCommandPrefix  as in it
  resources, extraArgs             of the container
*/}}
{{- define "moorage.nodeDaemonSet" -}}
{{- $ := .root }}
{{- $csi := .csi }}
{{- $node := $.Values.node }}
{{- $kubelet := $node.kubeletWorkDirectory }}
{{- $pluginDir := printf "%s/plugins/topolvm.io/node" $kubelet }}
{{- $prefix := .lvmCommandPrefix }}
{{- $directories := list }}
{{- $usesLvm := and .engine .localPv | empty | not }}
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
{{- fail "agents could never be upgraded: set node.maxSurge, or node.maxUnavailable, to more than 0" }}
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
      # The new agent starts as a standby beside the old one. Once it is ready, the old one is stopped and the new one takes
      # over at once. Kubernetes requires one of the two values to be 0.
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
      # LVM runs in the node's namespaces, which nsenter finds through PID 1.
      hostPID: true
      {{- else if eq (.localPv.mounts | default "") "systemd" }}
      # systemctl runs in the node's namespaces, which nsenter finds through PID 1.
      hostPID: true
      {{- end }}
      {{- if $usesLvmOfImage }}
      # LVM and the node's udev synchronize through a semaphore that both must see.
      hostIPC: true
      {{- end }}
      # Running operations get 20 s to finish.
      terminationGracePeriodSeconds: 30
      containers:
        - name: node
          image: {{ include "moorage.image" $ }}
          imagePullPolicy: {{ $.Values.image.pullPolicy }}
          args:
            - node
            {{- if not $csi }}
            - --csi=false
            {{- end }}
            - --csi-socket={{ $pluginDir }}/csi-topolvm.sock
            - --kubelet-dir={{ $kubelet }}
            - --lvmd-socket={{ $node.lvmdSocket }}
            {{- if not .engine }}
            - --embed-lvmd=false
            {{- else if not .config }}
            # No device classes: static volumes name volume groups.
            - --config=
            {{- end }}
            {{- if $csi }}
            {{- with $node.inlineVolumes }}
            - --inline-volumes={{ .enabled }}
            - --inline-device-classes={{ join "," .deviceClasses }}
            - --inline-max-size={{ .maxSize }}
            {{- end }}
            {{- end }}
            {{- with .localPv }}
            {{- include "moorage.localPv.nodeArgs" . | nindent 12 }}
            {{- end }}
            {{- if $directories }}
            - --state-dir={{ $pluginDir }}
            {{- end }}
            - --move-addr=:7443
            - --metrics-addr=:8080
            {{- if $.Values.metrics.secure }}
            - --secure-metrics-server
            {{- end }}
            - --log-level={{ $node.logLevel }}
            {{- range .extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: NODE_NAME
              valueFrom:
                fieldRef:
                  fieldPath: spec.nodeName
            {{- if .localPv }}
            # The namespace of the defaults for static volumes, and of Secrets with their keys.
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            {{- end }}
            # Other agents pull volumes that move to their nodes from here.
            - name: POD_IP
              valueFrom:
                fieldRef:
                  fieldPath: status.podIP
          ports:
            - name: metrics
              containerPort: 8080
            - name: moves
              containerPort: 7443
          {{- include "moorage.probes" $ | nindent 10 }}
          resources:
            {{- toYaml .resources | nindent 12 }}
          securityContext:
            # Mounts made here must appear on the node (Bidirectional, below), which Kubernetes allows only for privileged
            # containers. Devices of volumes created later need it too.
            privileged: true
            runAsUser: 0
            readOnlyRootFilesystem: true
          volumeMounts:
            {{- if $csi }}
            # The kubelet calls the agent on its socket here.
            - name: plugin
              mountPath: {{ $pluginDir }}
            # The agent registers itself here; no node-driver-registrar is needed.
            - name: registration
              mountPath: {{ $kubelet }}/plugins_registry
            # Each volume is staged once per node below this directory.
            - name: staging
              mountPath: {{ $kubelet }}/plugins/kubernetes.io/csi
              mountPropagation: Bidirectional
            # Each volume is mounted from there into its pods.
            - name: pods
              mountPath: {{ $kubelet }}/pods
              mountPropagation: Bidirectional
            {{- else }}
            # The agents of a node queue here.
            - name: plugin
              mountPath: {{ $pluginDir }}
            # Shows which volumes pods use.
            - name: pods
              mountPath: {{ $kubelet }}/pods
              mountPropagation: HostToContainer
            {{- end }}
            {{- with .localPv }}
            {{- include "moorage.localPv.nodeMounts" . | nindent 12 }}
            {{- end }}
            # Volume devices, which appear and disappear at run time.
            - name: devices
              mountPath: /dev
            {{- if $csi }}
            # The cgroups of pods, for IO limits of volumes (io.max).
            - name: cgroups
              mountPath: /sys/fs/cgroup
            {{- end }}
            # lvmd's socket: that of the node's own lvmd, or one for administrators on the node.
            - name: lvmd
              mountPath: {{ dir $node.lvmdSocket }}
            # Runtime state of LVM and cryptsetup.
            - name: run
              mountPath: /run
            {{- if .config }}
            - name: config
              mountPath: /etc/topolvm
              readOnly: true
            {{- end }}
            {{- range $index, $path := $directories | uniq }}
            # The directory of a file device class.
            - name: files-{{ $index }}
              mountPath: {{ $path }}
              # A disk mounted there later becomes visible without a restart.
              mountPropagation: HostToContainer
            {{- end }}
            {{- if $usesLvmOfImage }}
            # The udev database.
            - name: udev
              mountPath: /run/udev
              readOnly: true
            # LVM's locks, shared with LVM on the node so that they never run at the same time.
            - name: lvm-locks
              mountPath: /run/lock/lvm
            # Backups that LVM makes of its metadata before a change. The metadata itself is on the disks.
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
        {{- if $csi }}
        - name: registration
          hostPath:
            path: {{ $kubelet }}/plugins_registry
            type: Directory
        - name: staging
          hostPath:
            path: {{ $kubelet }}/plugins/kubernetes.io/csi
            type: DirectoryOrCreate
        {{- end }}
        - name: pods
          hostPath:
            path: {{ $kubelet }}/pods
            type: Directory
        {{- with .localPv }}
        {{- include "moorage.localPv.nodeVolumes" . | nindent 8 }}
        {{- end }}
        - name: devices
          hostPath:
            path: /dev
            type: Directory
        {{- if $csi }}
        - name: cgroups
          hostPath:
            path: /sys/fs/cgroup
            type: Directory
        {{- end }}
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
