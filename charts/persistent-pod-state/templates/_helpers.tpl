{{- define "pps.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "pps.fullname" -}}
{{- default "pps" .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The namespace of all objects but those in Kubewarden's. */}}
{{- define "pps.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "pps.sidecar" -}}
{{ include "pps.fullname" . }}-sidecar
{{- end -}}

{{- define "pps.serviceAccount" -}}
{{- default (ternary (include "pps.sidecar" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/* The labels that select the sidecar's Pods. They never change. */}}
{{- define "pps.selector" -}}
app.kubernetes.io/name: {{ include "pps.name" . }}
app.kubernetes.io/component: sidecar
{{- end -}}

{{/* Arguments: the context, and the component that the object belongs to. Labels of users never replace ours. */}}
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
