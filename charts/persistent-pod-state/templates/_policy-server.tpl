{{/*
Which PolicyServer runs the policies, and the accounts that look up PersistentPodStates. The values alone say so, and nothing
is looked up in the cluster: `helm template` and Argo CD render what `helm install` does.
*/}}

{{/* The PolicyServer that this chart creates. */}}
{{- define "pps.dedicatedPolicyServer" -}}
{{- default (include "pps.name" .) .Values.policyServer.name -}}
{{- end -}}

{{/* Its ServiceAccount. */}}
{{- define "pps.policyServerServiceAccount" -}}
{{- default (printf "policy-server-%s" (include "pps.dedicatedPolicyServer" .)) .Values.policyServer.serviceAccount.name -}}
{{- end -}}

{{/* Its image. There is no default: it has to be of the version of the cluster's Kubewarden. */}}
{{- define "pps.policyServerImage" -}}
{{- $image := .Values.policyServer.image -}}
{{- if not (and $image.repository (or $image.tag $image.digest)) -}}
{{- fail (printf "policyServer.image.%s is empty: set repository and tag to what your Kubewarden has. This prints them: kubectl get policyserver default -o jsonpath='{.spec.image}'; so does `kubectl pps check`" (ternary "tag" "repository" (not (empty $image.repository)))) -}}
{{- end -}}
{{- include "pps.image" (list . $image) -}}
{{- end -}}

{{/* Its affinity. Its definition has no node selector. */}}
{{- define "pps.policyServerAffinity" -}}
{{- $affinity := deepCopy (.Values.policyServer.affinity | default dict) -}}
{{- if not $affinity }}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          kubewarden/policy-server: {{ include "pps.dedicatedPolicyServer" . }}
{{- else }}
{{ toYaml $affinity }}
{{- end }}
{{- if and .Values.policyServer.nodeSelector (not (hasKey $affinity "nodeAffinity")) }}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      {{- range $key, $value := .Values.policyServer.nodeSelector }}
      - key: {{ $key }}
        operator: In
        values: [{{ $value | quote }}]
      {{- end }}
{{- end }}
{{- end -}}

{{/* The PolicyServer that runs the policies. */}}
{{- define "pps.policyServer" -}}
{{- if .Values.policy.policyServer -}}
{{ .Values.policy.policyServer }}
{{- else if .Values.policyServer.create -}}
{{ include "pps.dedicatedPolicyServer" . }}
{{- else -}}
{{- fail "policyServer.create is false, so the chart creates no PolicyServer: name one of the cluster's in policy.policyServer (kubectl get policyservers)" -}}
{{- end -}}
{{- end -}}

{{/* The ServiceAccount of the PolicyServer that runs the policies. */}}
{{- define "pps.policyServerAccount" -}}
{{- $server := include "pps.policyServer" . -}}
{{- if and .Values.policyServer.create (eq $server (include "pps.dedicatedPolicyServer" .)) -}}
{{ include "pps.policyServerServiceAccount" . }}
{{- else if .Values.policy.policyServerServiceAccount -}}
{{ .Values.policy.policyServerServiceAccount }}
{{- else -}}
{{- fail (printf "policy.policyServerServiceAccount is empty: set it to the ServiceAccount of the PolicyServer %s, which this prints (to `default` if it prints nothing): kubectl get policyserver %s -o jsonpath='{.spec.serviceAccountName}'" $server $server) -}}
{{- end -}}
{{- end -}}

{{/*
The PolicyServers that may look up PersistentPodStates and their ServiceAccounts, as JSON. The one that the chart creates
stays and keeps the role without policies, too, and while they run on another one: Kubewarden's controller deletes a policy
only after its webhook, and a webhook without the role refuses every Pod that the policy looks up.
*/}}
{{- define "pps.policyServerAccounts" -}}
{{- $accounts := dict -}}
{{- range .Values.policy.formerPolicyServers -}}
{{- $_ := set $accounts .name .serviceAccount -}}
{{- end -}}
{{- if .Values.policyServer.create -}}
{{- $_ := set $accounts (include "pps.dedicatedPolicyServer" .) (include "pps.policyServerServiceAccount" .) -}}
{{- end -}}
{{- if or .Values.policy.enabled .Values.policy.policyServer -}}
{{- $_ := set $accounts (include "pps.policyServer" .) (include "pps.policyServerAccount" .) -}}
{{- end -}}
{{- $accounts | toJson -}}
{{- end -}}
