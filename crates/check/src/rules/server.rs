//! The PolicyServer, its Pods and its ServiceAccount.

use super::findings::Findings;
use crate::facts::{Facts, Phase, Pod, Read};
use crate::finding::{Code, Severity};

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if facts.server_definition.is_absent() {
        return;
    }
    let name = &facts.server_name;
    let subject = format!("PolicyServer {name}");
    let is_created = facts.settings.phase == Phase::Before && facts.settings.creates_policy_server;
    match &facts.server {
        Read::Unknown => return,
        Read::Absent if is_created => return,
        Read::Absent => {
            return findings.error(
                Code::PolicyServerMissing,
                subject,
                "does not exist: policies on it are never active",
                "create it (chart: policyServer.create=true), or name one of `kubectl get policyservers`",
            );
        }
        Read::Known(_) => {}
    }
    check_pods(facts, &subject, findings);
    check_account(facts, &subject, findings);
}

fn check_pods(facts: &Facts, subject: &str, findings: &mut Findings) {
    let Some(server) = facts.server.known() else { return };
    let before = findings.0.len();
    let failed: Vec<String> = server
        .status
        .conditions
        .iter()
        .filter(|condition| condition.status == "False" && condition.kind().ends_with("Reconciled"))
        .map(|condition| format!("{}: {}", condition.kind(), condition.message))
        .collect();
    if !failed.is_empty() {
        findings.warning(
            Code::PolicyServerNotReconciled,
            subject,
            failed.join("; "),
            "the log of Kubewarden's controller says more",
        );
    }
    // An installation on a PolicyServer that is not ready works once it is.
    let severity = if facts.settings.phase == Phase::Before { Severity::Warning } else { Severity::Error };
    let namespace = &facts.server_namespace;
    if server.spec.replicas == 0 {
        findings.add(
            severity,
            Code::PolicyServerNotReady,
            subject,
            "spec.replicas is 0, so nothing answers",
            format!(
                "kubectl patch policyserver {} --type=merge -p '{{\"spec\":{{\"replicas\":2}}}}'",
                facts.server_name
            ),
        );
    } else if facts.server_deployment.is_absent() {
        findings.add(
            severity,
            Code::PolicyServerNotReady,
            subject,
            format!("has no Deployment in namespace {namespace}"),
            "see whether Kubewarden's controller runs",
        );
    } else if let Some(pods) = facts.server_pods.items() {
        let pods: Vec<&Pod> = pods.iter().filter(|pod| !pod.is_gone()).collect();
        let unready: Vec<&Pod> = pods.iter().copied().filter(|pod| !pod.is_ready()).collect();
        if pods.is_empty() {
            findings.add(
                severity,
                Code::PolicyServerNotReady,
                subject,
                format!("has no Pod in namespace {namespace}"),
                format!("kubectl describe deployment -n {namespace} policy-server-{}", facts.server_name),
            );
        }
        let wanted = server.spec.replicas;
        if !pods.is_empty() && unready.is_empty() && (pods.len() as u64) < wanted {
            findings.add(
                severity,
                Code::PolicyServerNotReady,
                subject,
                format!("has {} of {wanted} Pods in namespace {namespace}", pods.len()),
                format!("kubectl describe deployment -n {namespace} policy-server-{}", facts.server_name),
            );
        }
        if let Some(first) = unready.first() {
            findings.add(
                severity,
                Code::PolicyServerNotReady,
                subject,
                format!("{} of {} Pods are not ready: {}", unready.len(), pods.len(), explain(first)),
                // It pulls all modules when it starts, and ends if one cannot be pulled, is not valid, or refuses
                // its settings.
                format!("its log says why: kubectl logs -n {namespace} {}", first.metadata.name),
            );
        }
    }
    if server.spec.replicas == 1 {
        findings.info(
            Code::PolicyServerSingleReplica,
            subject,
            "has one replica: while its Pod is replaced, Pods with recorded states wait",
            "set replicas to 2 or more",
        );
    }
    check_image(facts, subject, findings);
    if !server.spec.verification_config.is_empty() {
        findings.info(
            Code::SignatureRequired,
            subject,
            format!(
                "runs only modules whose signatures the ConfigMap {} accepts",
                server.spec.verification_config
            ),
            "see docs/publishing.md for how the module is signed",
        );
    }
    let is_bad = findings.0.iter().skip(before).any(|finding| finding.severity >= Severity::Warning);
    if !is_bad && let Some(pods) = facts.server_pods.items() {
        findings.ok(
            Code::PolicyServerReady,
            subject,
            format!(
                "{} of {} Pods ready, image {}",
                pods.iter().filter(|pod| pod.is_ready() && !pod.is_gone()).count(),
                server.spec.replicas,
                server.spec.image
            ),
        );
    }
}

/// An upgrade of Kubewarden moves the image of `default`, and that of no other PolicyServer.
fn check_image(facts: &Facts, subject: &str, findings: &mut Findings) {
    let (Some(own), Some(default)) = (facts.server.known(), facts.default_server.known()) else { return };
    // The installation may change it.
    if facts.settings.phase == Phase::Before || own.spec.image == default.spec.image {
        return;
    }
    findings.warning(
        Code::PolicyServerImageDiffers,
        subject,
        format!(
            "has the image {}, but PolicyServer default has {}: Kubewarden's controller may need the newer one",
            own.spec.image, default.spec.image
        ),
        format!(
            "set spec.image of PolicyServer {} to that of default (the chart takes it at the next helm upgrade)",
            facts.server_name
        ),
    );
}

/// Why a Pod is not ready, as far as its status says.
fn explain(pod: &Pod) -> String {
    let name = &pod.metadata.name;
    for status in &pod.status.container_statuses {
        let last = status.last_state.terminated.as_ref().or(status.state.terminated.as_ref());
        let ended = last.map_or(String::new(), |last| {
            format!(", ended with exit code {} {}", last.exit_code, last.message)
        });
        if let Some(waiting) = &status.state.waiting {
            let text = format!("{name}: {} {}", waiting.reason, waiting.message);
            return format!("{}{}", text.trim_end(), ended.trim_end());
        }
        if !ended.is_empty() {
            return format!("{name}{}, {} restarts", ended.trim_end(), status.restart_count);
        }
    }
    if !pod.status.reason.is_empty() {
        return format!("{name}: {} {}", pod.status.reason, pod.status.message).trim_end().to_owned();
    }
    let unmet = pod.status.conditions.iter().find(|condition| condition.status != "True");
    match unmet {
        Some(condition) => format!("{name}: {} {} {}", condition.kind(), condition.reason, condition.message)
            .trim_end()
            .to_owned(),
        None => format!("{name} has no status yet"),
    }
}

fn check_account(facts: &Facts, subject: &str, findings: &mut Findings) {
    let (namespace, account) = (&facts.server_namespace, facts.account_name());
    let full = format!("ServiceAccount {namespace}/{account}");
    if let Some((wanted_namespace, wanted)) = &facts.settings.service_account
        && (wanted.as_str(), wanted_namespace) != (account, namespace)
    {
        findings.error(
            Code::ServiceAccountMismatch,
            subject,
            format!("uses {namespace}/{account}, but the role is bound to {wanted_namespace}/{wanted}"),
            "bind the role pps-policy to the PolicyServer's own account (chart: policy.policyServerServiceAccount)",
        );
    }
    if facts.server_account.is_absent() {
        findings.error(
            Code::ServiceAccountMissing,
            full.as_str(),
            format!("{subject} uses it, but it does not exist, so no Pod of it can be created"),
            format!("kubectl create serviceaccount -n {namespace} {account}"),
        );
    }
    match facts.server_may_look_up {
        // The installation binds the role.
        Read::Known(false) if facts.settings.phase == Phase::Before => {}
        Read::Known(false) => findings.error(
            Code::LookupForbidden,
            full,
            format!("{subject} uses it, but it may not get persistentpodstates in all namespaces: Pods that are looked up are refused"),
            format!(
                "kubectl create clusterrolebinding pps-policy-{0} --clusterrole=pps-policy --serviceaccount={namespace}:{account}",
                facts.server_name
            ),
        ),
        Read::Known(true) => {
            findings.ok(Code::LookupAllowed, full, "may get persistentpodstates in all namespaces");
        }
        Read::Absent | Read::Unknown => {}
    }
}
