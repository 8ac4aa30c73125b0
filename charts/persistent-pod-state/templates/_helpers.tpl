{{- define "pps.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of the names of all objects but the policies and their PolicyServer. */}}
{{- define "pps.fullname" -}}
{{- $name := include "pps.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The namespace of all objects but those in Kubewarden's. */}}
{{- define "pps.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/*
The recorders, as JSON: the namespaces that each have a sidecar of their own; one empty name for the sidecar that records all.
A template of one recorder gets the context with its namespace in `recorded`.
*/}}
{{- define "pps.recorders" -}}
{{- $outside := concat (include "pps.excludedNamespaces" . | fromJsonArray) (list (include "pps.namespace" .) .Values.policyServer.namespace) -}}
{{- range .Values.namespaces -}}
{{- if has . $outside -}}
{{- fail (printf "namespaces has %q: remove it, since this namespace never takes part" .) -}}
{{- end -}}
{{- if not (include "pps.records" $) -}}
{{- fail "namespaces: OpenKruise's manager records (sidecar.recorder), and in all namespaces: remove the list" -}}
{{- end -}}
{{- end -}}
{{- default (list "") .Values.namespaces | toJson -}}
{{- end -}}

{{/*
The name of an object that each recorder has. Where the whole is too long for a label, its end is a hash, so that no two are
the same. Arguments: the context, and the name without the namespace.
*/}}
{{- define "pps.ofRecorder" -}}
{{- $name := index . 1 -}}
{{- with (index . 0).recorded -}}
{{- $name = printf "%s-%s" $name . -}}
{{- if gt (len $name) 63 -}}
{{- $name = printf "%s-%s" (trunc 54 $name | trimSuffix "-") (sha256sum $name | trunc 8) -}}
{{- end -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* The name of the sidecar's objects; with `recorded`, of those that each recorder has. */}}
{{- define "pps.sidecar" -}}
{{- include "pps.ofRecorder" (list . (printf "%s-sidecar" (include "pps.fullname" .))) -}}
{{- end -}}

{{- define "pps.serviceAccount" -}}
{{- if .Values.serviceAccount.name -}}
{{- include "pps.ofRecorder" (list . .Values.serviceAccount.name) -}}
{{- else -}}
{{- ternary (include "pps.sidecar" .) "default" .Values.serviceAccount.create -}}
{{- end -}}
{{- end -}}

{{/* The accounts of the recorders, or of the one in `recorded`, as subjects of a binding. */}}
{{- define "pps.subjects" -}}
{{- range ternary (include "pps.recorders" . | fromJsonArray) (list .recorded) (empty .recorded) }}
{{- $one := merge (dict "recorded" .) $ }}
- kind: ServiceAccount
  name: {{ include "pps.serviceAccount" $one }}
  namespace: {{ include "pps.namespace" $one }}
{{- end }}
{{- end -}}

{{/* The labels that select the sidecar's Pods; with `recorded`, those of one recorder. They never change. */}}
{{- define "pps.selector" -}}
app.kubernetes.io/name: {{ include "pps.name" . }}
app.kubernetes.io/component: sidecar
{{- with .recorded }}
persistent-pod-state/namespace: {{ . | quote }}
{{- end }}
{{- end -}}

{{/*
Labels and annotations. Arguments: the context, the component that the object belongs to, and its own annotations, if it
has any. Those of users never replace ours.
*/}}
{{- define "pps.metadata" -}}
{{- $context := index . 0 -}}
{{- with merge (dict) (first (slice . 2) | default dict) ($context.Values.commonAnnotations | default dict) -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
labels:
  {{- include "pps.labels" . | nindent 2 }}
{{- end -}}

{{/* Arguments: the context, and the component. */}}
{{- define "pps.labels" -}}
{{- $context := index . 0 -}}
{{- $chart := printf "%s-%s" $context.Chart.Name $context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- $ours := dict
  "app.kubernetes.io/name" (include "pps.name" $context)
  "app.kubernetes.io/component" (index . 1)
  "app.kubernetes.io/instance" $context.Release.Name
  "app.kubernetes.io/version" $context.Chart.AppVersion
  "app.kubernetes.io/managed-by" $context.Release.Service
  "app.kubernetes.io/part-of" "persistent-pod-state"
  "helm.sh/chart" $chart -}}
{{- merge $ours ($context.Values.commonLabels | default dict) | toYaml -}}
{{- end -}}

{{/* An image's repository, from the registry that Rancher or another parent chart prescribes for all images. */}}
{{- define "pps.repository" -}}
{{- $global := default dict (index . 0).Values.global -}}
{{- $registry := default (dig "cattle" "systemDefaultRegistry" "" $global) (get $global "imageRegistry") -}}
{{- $parts := splitn "/" 2 (index . 1) -}}
{{- if not $registry -}}
{{ index . 1 }}
{{- else if and $parts._1 (regexMatch "[.:]|^localhost$" $parts._0) -}}
{{ $registry }}/{{ $parts._1 }}
{{- else -}}
{{ $registry }}/{{ index . 1 }}
{{- end -}}
{{- end -}}

{{/* Arguments: the context, and an image with repository, tag and digest. */}}
{{- define "pps.image" -}}
{{- $image := index . 1 -}}
{{- $repository := include "pps.repository" (list (index . 0) $image.repository) -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ default (printf "v%s" (index . 0).Chart.AppVersion) $image.tag }}
{{- end -}}
{{- end -}}

{{/*
The sidecar's image or the policies' module. Arguments: the context, the image, the value that it is, and the repository of
the released one, which hack/set-owner.sh changes. Fails while that is a name that cannot exist.
*/}}
{{- define "pps.ownImage" -}}
{{- $image := merge (dict "repository" (default (index . 3) (index . 1).repository)) (index . 1) -}}
{{- $reference := include "pps.image" (list (index . 0) $image) -}}
{{- if and (not (index . 1).repository) (hasPrefix "registry.example." $reference) -}}
{{- fail (printf "%s.repository is empty, and nothing is published yet: set it to the registry and path to which you pushed; `make chart-values REGISTRY=…` prints all values for that" (index . 2)) -}}
{{- end -}}
{{- $reference -}}
{{- end -}}

{{- define "pps.sidecarImage" -}}
{{- include "pps.ownImage" (list . .Values.image "image" "registry.example.com/pps/persistent-pod-state-sidecar") -}}
{{- end -}}

{{- define "pps.module" -}}
registry://{{ include "pps.ownImage" (list . .Values.policy.module "policy.module" "registry.example.com/pps/policies/persistent-pod-state") }}
{{- end -}}

{{/* Secrets of one part and of all, as a list. Arguments: the context, and the part's. */}}
{{- define "pps.pullSecrets" -}}
{{- $all := (index . 0).Values.global | default dict | dig "imagePullSecrets" list -}}
{{- $names := list -}}
{{- range concat (index . 1 | default list) ($all | default list) -}}
{{- if kindIs "string" . -}}
{{- $names = append $names (dict "name" .) -}}
{{- else -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- $names | uniq | toJson -}}
{{- end -}}

{{/* The Pod's security context. OpenShift assigns a user and a group to each namespace, and refuses others. */}}
{{- define "pps.podSecurityContext" -}}
{{- $assigns := .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- if eq .Values.openShift "enabled" }}{{ $assigns = true }}{{ end -}}
{{- if eq .Values.openShift "disabled" }}{{ $assigns = false }}{{ end -}}
{{- if $assigns -}}
{{- omit .Values.podSecurityContext "runAsUser" "runAsGroup" "fsGroup" | toYaml -}}
{{- else -}}
{{- toYaml .Values.podSecurityContext -}}
{{- end -}}
{{- end -}}

{{/* Not empty if the sidecar records, and not OpenKruise's manager. */}}
{{- define "pps.records" -}}
{{- if eq .Values.sidecar.recorder "self" }}true{{ end -}}
{{- end -}}

{{/* minAvailable or maxUnavailable of a disruption budget. */}}
{{- define "pps.budget" -}}
{{- if not (kindIs "invalid" .minAvailable) -}}
minAvailable: {{ .minAvailable }}
{{- else if not (kindIs "invalid" .maxUnavailable) -}}
maxUnavailable: {{ .maxUnavailable }}
{{- end -}}
{{- end -}}
