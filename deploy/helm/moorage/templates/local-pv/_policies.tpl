{{/* Restricts agents and controller to their part of static volumes. RBAC lets them change whole PersistentVolumes. */}}
{{- define "moorage.localPv.policies" -}}
# An agent changes only its own annotations, and only of static volumes that the controller has assigned to its node. The API server
# takes the node's name from the token, which is bound to the pod and so to the node.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: moorage-node-static-volumes
  labels:
    {{- include "moorage.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        resources: [persistentvolumes, persistentvolumes/status]
        operations: [CREATE, UPDATE, DELETE]
  matchConditions:
    - name: of-an-agent
      expression: request.userInfo.username == "system:serviceaccount:{{ .Release.Namespace }}:moorage-node"
  variables:
    - name: node
      expression: request.userInfo.?extra[?"authentication.kubernetes.io/node-name"][?0].orValue("")
    - name: isUpdate
      expression: request.operation == "UPDATE"
    - name: annotations
      expression: object.metadata.?annotations.orValue({})
    - name: oldAnnotations
      expression: oldObject.metadata.?annotations.orValue({})
    - name: assignedTo
      expression: variables.oldAnnotations[?"local-pv.k8s.portavita.net/node"].orValue("")
    # What the volume has got, and what the agent has done.
    - name: ownAnnotation
      expression: >-
        "^(local-pv[.]k8s[.]portavita[.]net/(fsType|fsOpts|mountOpts|vg|size|mountPoint|cryptSecret|status)|" +
        "moorage[.]dev/(device-class|message|processed|released|removed))$"
    # Metadata fields with rules of their own, and those that the API server writes.
    - name: looseMetadata
      expression: '["annotations", "managedFields", "resourceVersion", "generation"]'
  validations:
    - expression: variables.node != ""
      message: the token is not bound to a node; an agent must use the token of its own pod
      reason: Forbidden
    - expression: >-
        variables.isUpdate && variables.assignedTo == variables.node &&
        "moorage.dev/local-pv" in oldObject.metadata.?finalizers.orValue([])
      message: an agent may change only static volumes of its own node
      reason: Forbidden
    - expression: variables.isUpdate && object.spec == oldObject.spec && object.?status == oldObject.?status
      message: an agent may change only annotations of a PersistentVolume
      reason: Forbidden
    - expression: >-
        variables.isUpdate &&
        dyn(object.metadata).all(key, key in variables.looseMetadata ||
        key in dyn(oldObject.metadata) && dyn(object.metadata)[key] == dyn(oldObject.metadata)[key]) &&
        dyn(oldObject.metadata).all(key, key in variables.looseMetadata || key in dyn(object.metadata))
      message: an agent may change only annotations in the metadata of a PersistentVolume
      reason: Forbidden
    - expression: >-
        variables.isUpdate &&
        variables.annotations.all(key, key.matches(variables.ownAnnotation) ||
        key in variables.oldAnnotations && variables.oldAnnotations[key] == variables.annotations[key]) &&
        variables.oldAnnotations.all(key, key.matches(variables.ownAnnotation) || key in variables.annotations)
      message: >-
        an agent may change only its own annotations of a static volume: what it has got, its status and message, and that it was
        emptied or removed
      reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: moorage-node-static-volumes
  labels:
    {{- include "moorage.labels" . | nindent 4 }}
spec:
  policyName: moorage-node-static-volumes
  validationActions: [Deny]
---
# The controller changes only its own annotations and its finalizer of PersistentVolumes with a local path. It removes the finalizer
# only from deleted ones, and the claimRef only if the agent has emptied the volume after that very claim.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: moorage-controller-static-volumes
  labels:
    {{- include "moorage.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        resources: [persistentvolumes, persistentvolumes/status]
        operations: [UPDATE]
  matchConditions:
    - name: of-the-controller
      expression: request.userInfo.username == "system:serviceaccount:{{ .Release.Namespace }}:moorage-controller"
    {{- if eq .Chart.Name "moorage" }}
    # The other policy of the ServiceAccount, which it shares with sidecars, is for volumes of the CSI driver.
    - name: local
      expression: has(oldObject.spec.local)
    {{- end }}
  variables:
    - name: annotations
      expression: object.metadata.?annotations.orValue({})
    - name: oldAnnotations
      expression: oldObject.metadata.?annotations.orValue({})
    - name: ownAnnotation
      expression: >-
        "^(local-pv[.]k8s[.]portavita[.]net/(node|status|autoRelease)|" +
        "moorage[.]dev/(message|node-removed|processed|released|removed))$"
    - name: finalizers
      expression: object.metadata.?finalizers.orValue([])
    - name: oldFinalizers
      expression: oldObject.metadata.?finalizers.orValue([])
    - name: looseMetadata
      expression: '["annotations", "finalizers", "managedFields", "resourceVersion", "generation"]'
    - name: emptiedAfter
      expression: variables.oldAnnotations[?"moorage.dev/released"].orValue("")
  validations:
    - expression: has(oldObject.spec.local)
      message: the controller may change only PersistentVolumes with a local path
      reason: Forbidden
    - expression: >-
        object.?status == oldObject.?status &&
        dyn(object.spec).all(key, key == "claimRef" ||
        key in dyn(oldObject.spec) && dyn(object.spec)[key] == dyn(oldObject.spec)[key]) &&
        dyn(oldObject.spec).all(key, key == "claimRef" || key in dyn(object.spec))
      message: the controller may not change the spec or the status of a static volume, except for its claimRef
      reason: Forbidden
    - expression: >-
        object.spec.?claimRef == oldObject.spec.?claimRef ||
        !has(object.spec.claimRef) && "moorage.dev/local-pv" in variables.oldFinalizers &&
        oldObject.status.?phase.orValue("") == "Released" &&
        variables.emptiedAfter != "" && oldObject.spec.claimRef.?uid.orValue("") == variables.emptiedAfter
      message: the controller may remove the claimRef only from a released static volume that its agent has emptied after that claim
      reason: Forbidden
    - expression: >-
        dyn(object.metadata).all(key, key in variables.looseMetadata ||
        key in dyn(oldObject.metadata) && dyn(object.metadata)[key] == dyn(oldObject.metadata)[key]) &&
        dyn(oldObject.metadata).all(key, key in variables.looseMetadata || key in dyn(object.metadata))
      message: the controller may change only annotations and finalizers in the metadata of a static volume
      reason: Forbidden
    - expression: >-
        variables.finalizers.all(name, name in variables.oldFinalizers || name == "moorage.dev/local-pv") &&
        variables.oldFinalizers.all(name, name in variables.finalizers ||
        name == "moorage.dev/local-pv" && has(oldObject.metadata.deletionTimestamp))
      message: the controller may change only its own finalizer of a static volume, and remove it only when the volume is deleted
      reason: Forbidden
    - expression: >-
        variables.annotations.all(key, key.matches(variables.ownAnnotation) ||
        key in variables.oldAnnotations && variables.oldAnnotations[key] == variables.annotations[key]) &&
        variables.oldAnnotations.all(key, key.matches(variables.ownAnnotation) || key in variables.annotations)
      message: the controller may change only its own annotations of a static volume
      reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: moorage-controller-static-volumes
  labels:
    {{- include "moorage.labels" . | nindent 4 }}
spec:
  policyName: moorage-controller-static-volumes
  validationActions: [Deny]
{{- end }}
