{{- /* The namespaces in scope, as the policies for Pods select them: requirements of a label selector. With `recorded`, those of one recorder. */}}
{{- define "pps.namespaceRequirements" -}}
- key: persistent-pod-state/injection
  {{- if eq .Values.scope "OptIn" }}
  operator: In
  values: [enabled]
  {{- else }}
  operator: NotIn
  values: [disabled]
  {{- end }}
- key: kubernetes.io/metadata.name
  {{- if .Values.namespaces }}
  operator: In
  values: {{ ternary (list .recorded) .Values.namespaces (not (empty .recorded)) | toJson }}
  {{- else }}
  operator: NotIn
  values: {{ append (include "pps.excludedNamespaces" . | fromJsonArray) (include "pps.namespace" .) | uniq | toJson }}
  {{- end }}
{{- with (.Values.policy.namespaceSelector | default dict).matchExpressions }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The same as the text of a label selector, for the sidecar; empty if that is the sidecar's default. Kubewarden leaves its
own namespace out of each policy. */}}
{{- define "pps.namespaceSelector" -}}
{{- $further := concat (.Values.namespaces | default list) (.Values.policy.excludedNamespaces | default list) ((.Values.policy.namespaceSelector | default dict).matchExpressions | default list) -}}
{{- if or (ne .Values.scope "OptIn") $further -}}
{{- $terms := list -}}
{{- range include "pps.namespaceRequirements" . | fromYamlArray -}}
{{- $values := .values | default list -}}
{{- if and $.Values.policy.enabled (eq .key "kubernetes.io/metadata.name") (eq .operator "NotIn") -}}
{{- $values = append $values $.Values.policyServer.namespace | uniq -}}
{{- end -}}
{{- $one := and (eq (len $values) 1) (has .operator (list "In" "NotIn")) -}}
{{- $operators := dict "In" (ternary "=" " in " $one) "NotIn" (ternary "!=" " notin " $one) -}}
{{- if $one -}}
{{- $terms = append $terms (printf "%s%s%s" .key (get $operators .operator) (first $values)) -}}
{{- else if hasKey $operators .operator -}}
{{- $terms = append $terms (printf "%s%s(%s)" .key (get $operators .operator) (join "," $values)) -}}
{{- else -}}
{{- $terms = append $terms (printf "%s%s" (ternary "!" "" (eq .operator "DoesNotExist")) .key) -}}
{{- end -}}
{{- end -}}
{{- join "," $terms -}}
{{- end -}}
{{- end -}}
