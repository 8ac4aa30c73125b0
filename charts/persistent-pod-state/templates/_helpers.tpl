{{- define "pps.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "pps.fullname" -}}
{{- default "pps" .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
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

{{/* Arguments: the context, and the component that the object belongs to. */}}
{{- define "pps.labels" -}}
{{- $context := index . 0 -}}
app.kubernetes.io/name: {{ include "pps.name" $context }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/instance: {{ $context.Release.Name }}
app.kubernetes.io/version: {{ $context.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $context.Release.Service }}
app.kubernetes.io/part-of: persistent-pod-state
helm.sh/chart: {{ printf "%s-%s" $context.Chart.Name $context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* Arguments: the context, and an image with repository, tag and digest. */}}
{{- define "pps.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default (printf "v%s" (index . 0).Chart.AppVersion) $image.tag }}
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
