{{/*
Which PolicyServer runs the policies, and what is known about it. Names that belong to Kubewarden are looked up in the
cluster or must be given. `helm template`, --dry-run=client and Argo CD do not ask the cluster.
*/}}

{{/* The PolicyServer that this chart creates. */}}
{{- define "pps.dedicatedPolicyServer" -}}
{{- default (include "pps.name" .) .Values.policyServer.name -}}
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

{{/* The ServiceAccount of the PolicyServer that this chart creates. */}}
{{- define "pps.policyServerServiceAccount" -}}
{{- default (printf "policy-server-%s" (include "pps.dedicatedPolicyServer" .)) .Values.policyServer.serviceAccount.name -}}
{{- end -}}

{{/* Not empty if the cluster can be asked for that kind of Kubewarden's. */}}
{{- define "pps.hasKubewarden" -}}
{{- if (index . 0).Capabilities.APIVersions.Has (printf "policies.kubewarden.io/v1/%s" (index . 1)) }}true{{ end -}}
{{- end -}}

{{/* Kubewarden's namespace, in which its controller runs all PolicyServers. */}}
{{- define "pps.kubewardenNamespace" -}}
{{- with .Values.policyServer.namespace -}}
{{ . }}
{{- else -}}
{{- $name := "kubewarden-controller-validating-webhook-configuration" -}}
{{- $configuration := lookup "admissionregistration.k8s.io/v1" "ValidatingWebhookConfiguration" "" $name -}}
{{- $found := "" -}}
{{- range dig "webhooks" (list) $configuration -}}
{{- $found = default (dig "clientConfig" "service" "namespace" "" .) $found -}}
{{- end -}}
{{- if not $found -}}
{{- fail (printf "policyServer.namespace is empty, and Kubewarden's namespace was not found in the cluster: set the value to what this prints: kubectl get validatingwebhookconfiguration %s -o jsonpath='{.webhooks[0].clientConfig.service.namespace}'" $name) -}}
{{- end -}}
{{- $found -}}
{{- end -}}
{{- end -}}

{{/* The image of the PolicyServer that this chart creates: that of another one, so that it fits Kubewarden's controller. */}}
{{- define "pps.policyServerImage" -}}
{{- if .Values.policyServer.image.repository -}}
{{ include "pps.image" (list . .Values.policyServer.image) }}
{{- else -}}
{{- $found := "" -}}
{{- if include "pps.hasKubewarden" (list . "PolicyServer") -}}
{{- $server := lookup "policies.kubewarden.io/v1" "PolicyServer" "" "default" -}}
{{- $found = dig "spec" "image" "" $server -}}
{{- end -}}
{{- if not $found -}}
{{- fail "policyServer.image.repository is empty, and the cluster's PolicyServer `default`, whose image fits your Kubewarden, was not found: set policyServer.image.repository and policyServer.image.tag to what this prints, or to the image that your Kubewarden's release names: kubectl get policyserver default -o jsonpath='{.spec.image}'" -}}
{{- end -}}
{{- $found -}}
{{- end -}}
{{- end -}}

{{/* The ServiceAccount of a PolicyServer of the cluster; empty if it does not exist. Arguments: the context and its name. */}}
{{- define "pps.serviceAccountOf" -}}
{{- if include "pps.hasKubewarden" (list (index . 0) "PolicyServer") -}}
{{- with lookup "policies.kubewarden.io/v1" "PolicyServer" "" (index . 1) -}}
{{- dig "spec" "serviceAccountName" "" . | default "default" -}}
{{- end -}}
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
{{- $found := include "pps.serviceAccountOf" (list . $server) -}}
{{- if not $found -}}
{{- fail (printf "policy.policyServerServiceAccount is empty, and the PolicyServer %s was not found in the cluster: set the value to what this prints (to `default` if it prints nothing): kubectl get policyserver %s -o jsonpath='{.spec.serviceAccountName}'" $server $server) -}}
{{- end -}}
{{- $found -}}
{{- end -}}
{{- end -}}

{{/*
The PolicyServer and the mode of each policy that is installed, by the policy's name, as JSON: of those with a name that
this chart gives, and of copies of them, which have the label.
*/}}
{{- define "pps.installedPolicies" -}}
{{- $name := include "pps.name" . -}}
{{- $ours := list $name (printf "%s-validation" $name) (printf "%s-custom-workloads" $name) -}}
{{- $installed := dict -}}
{{- if include "pps.hasKubewarden" (list . "ClusterAdmissionPolicy") -}}
{{- range (lookup "policies.kubewarden.io/v1" "ClusterAdmissionPolicy" "" "").items -}}
{{- $label := get (.metadata.labels | default dict) "app.kubernetes.io/name" -}}
{{- if or (has .metadata.name $ours) (eq $label $name) -}}
{{- $_ := set $installed .metadata.name (dict "server" (dig "spec" "policyServer" "default" .) "mode" (dig "spec" "mode" "protect" .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $installed | toJson -}}
{{- end -}}

{{/*
The PolicyServers that may look up PersistentPodStates and their ServiceAccounts, as JSON: the one that runs the policies,
and the one that has run them until they have moved.
*/}}
{{- define "pps.policyServerAccounts" -}}
{{- $accounts := dict -}}
{{- if .Values.policy.enabled -}}
{{- $_ := set $accounts (include "pps.policyServer" .) (include "pps.policyServerAccount" .) -}}
{{- end -}}
{{- range .Values.policy.formerPolicyServers -}}
{{- $_ := set $accounts .name .serviceAccount -}}
{{- end -}}
{{- range $policy, $installed := include "pps.installedPolicies" . | fromJson -}}
{{- $former := $installed.server -}}
{{- $account := include "pps.serviceAccountOf" (list $ $former) -}}
{{- if and $account (not (hasKey $accounts $former)) -}}
{{- $_ := set $accounts $former $account -}}
{{- end -}}
{{- end -}}
{{- $accounts | toJson -}}
{{- end -}}

{{/*
Not empty if the chart creates the PolicyServer: also while a policy, or a copy of one, still runs on it. Before 1.36
Kubewarden's controller deletes the policies of a PolicyServer that is deleted.
*/}}
{{- define "pps.createsPolicyServer" -}}
{{- $dedicated := include "pps.dedicatedPolicyServer" . -}}
{{- $inUse := false -}}
{{- range $policy, $installed := include "pps.installedPolicies" . | fromJson -}}
{{- if eq $installed.server $dedicated }}{{ $inUse = true }}{{ end -}}
{{- end -}}
{{- if or (and .Values.policy.enabled .Values.policyServer.create) (and $inUse (include "pps.ownsPolicyServer" .)) }}true{{ end -}}
{{- end -}}

{{/*
Not empty if the policies may look up PersistentPodStates by roles of this release: also while policies are installed that
these values remove. Kubewarden's controller deletes a policy only after its webhook, and a webhook without the role refuses
every Pod that the policy looks up. Whoever deletes the role takes it over.
*/}}
{{- define "pps.grantsLookup" -}}
{{- if and .Values.policy.enabled .Values.rbac.create -}}
true
{{- else if include "pps.installedPolicies" . | fromJson -}}
{{- $role := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (printf "%s-policy" (include "pps.fullname" .)) -}}
{{- include "pps.isOfRelease" (list . $role) -}}
{{- end -}}
{{- end -}}

{{/* Not empty if an object belongs to this release. Arguments: the context and the object, empty if it does not exist. */}}
{{- define "pps.isOfRelease" -}}
{{- $release := (index . 0).Release -}}
{{- $annotations := dig "metadata" "annotations" (dict) (index . 1) -}}
{{- if and (eq (get $annotations "meta.helm.sh/release-name") $release.Name) (eq (get $annotations "meta.helm.sh/release-namespace") $release.Namespace) }}true{{ end -}}
{{- end -}}

{{/*
The fields that the cluster's definition of PolicyServer has, as a JSON list; empty if the cluster is not asked. The API
server refuses others.
*/}}
{{- define "pps.policyServerFields" -}}
{{- $fields := list -}}
{{- $definition := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "policyservers.policies.kubewarden.io" -}}
{{- range dig "spec" "versions" (list) $definition -}}
{{- if eq .name "v1" -}}
{{- $fields = keys (dig "schema" "openAPIV3Schema" "properties" "spec" "properties" (dict) .) -}}
{{- end -}}
{{- end -}}
{{- $fields | toJson -}}
{{- end -}}

{{/*
The labels of the PolicyServer's Pods, as YAML. Kubewarden knows them from 1.36 on: what is set for all objects gets there
only if the cluster says that it does.
*/}}
{{- define "pps.policyServerLabels" -}}
{{- $labels := .Values.policyServer.labels | default dict -}}
{{- with .Values.commonLabels -}}
{{- if has "labels" (include "pps.policyServerFields" $ | fromJsonArray) -}}
{{- $labels = merge (dict) $labels . -}}
{{- end -}}
{{- end -}}
{{- with $labels }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* Fails if a value sets a field that the cluster's Kubewarden does not have, before anything is changed. */}}
{{- define "pps.refuseUnknownFields" -}}
{{- range $field := list "labels" "webhookPort" "readinessProbePort" "metricsPort" -}}
{{- if get $.Values.policyServer $field -}}
{{- $known := include "pps.policyServerFields" $ | fromJsonArray -}}
{{- if and $known (not (has $field $known)) -}}
{{- fail (printf "policyServer.%s is set, and the PolicyServers of this cluster's Kubewarden have no such field: nothing was changed; remove the value, or upgrade Kubewarden to 1.36 or newer, with its chart kubewarden-crds, first" $field) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Not empty if the PolicyServer of that name belongs to this release. */}}
{{- define "pps.ownsPolicyServer" -}}
{{- if include "pps.hasKubewarden" (list . "PolicyServer") -}}
{{- $server := lookup "policies.kubewarden.io/v1" "PolicyServer" "" (include "pps.dedicatedPolicyServer" .) -}}
{{- include "pps.isOfRelease" (list . $server) -}}
{{- end -}}
{{- end -}}

{{/*
Fails if the names of the release change. The API server refuses another selector of the Deployment, and Helm would have
created a second set of policies by then.
*/}}
{{- define "pps.refuseOtherName" -}}
{{- $name := include "pps.name" . -}}
{{- $deployment := lookup "apps/v1" "Deployment" (include "pps.namespace" .) (include "pps.sidecar" .) -}}
{{- $installed := get (dig "spec" "selector" "matchLabels" (dict) $deployment) "app.kubernetes.io/name" -}}
{{- if and $installed (ne $installed $name) -}}
{{- fail (printf "the Deployment %s is installed with the name %s, and with this nameOverride it would have the name %s, which the API server refuses: nothing was changed; set nameOverride to %s, or remove the release first" (include "pps.sidecar" .) $installed $name $installed) -}}
{{- end -}}
{{- end -}}

{{/* Fails if Kubewarden would refuse to change an installed policy, before anything is changed. */}}
{{- define "pps.refuseImpossibleChanges" -}}
{{- $server := include "pps.policyServer" . -}}
{{- $name := include "pps.name" . -}}
{{- $ours := list $name (printf "%s-validation" $name) (printf "%s-custom-workloads" $name) -}}
{{- range $policy, $installed := include "pps.installedPolicies" . | fromJson -}}
{{- if and (has $policy $ours) (eq $installed.mode "protect") (eq $.Values.policy.mode "monitor") -}}
{{- fail (printf "the ClusterAdmissionPolicy %s has the mode protect, and Kubewarden refuses to change it to monitor: nothing was changed; delete the policy first (kubectl delete clusteradmissionpolicy %s), and while there is none, Pods start without their states" $policy $policy) -}}
{{- end -}}
{{- if and (has $policy $ours) (ne $installed.server $server) -}}
{{- fail (printf "the ClusterAdmissionPolicy %s runs on the PolicyServer %s, and with these values it would run on %s, which Kubewarden refuses: nothing was changed; set policy.policyServer to %s and policyServer.create to false, or move the policies as https://git.example.com/pps/persistent-pod-state-policy/blob/main/deploy/README.md#another-policyserver says" $policy $installed.server $server $installed.server) -}}
{{- end -}}
{{- end -}}
{{- end -}}
