//! The words about the PolicyServer and its ServiceAccount.

use super::{Words, list_server_pods};
use crate::facts::Facts;
use crate::finding::{Replicas, ServerDiagnosis as D, Unready};

pub(super) fn words(diagnosis: &D, facts: &Facts) -> Words {
    let server = &facts.server_name;
    let account = facts.server_account_name();
    match diagnosis {
        D::PolicyServerReady => Words::seen("all Pods are ready"),
        D::PolicyServerMissing => Words::seen("does not exist: policies on it are never active")
            .advise("create it (chart: policyServer.create=true), or name one that exists"),
        D::PolicyServerNotReady(unready) => unready_words(*unready, facts),
        D::ServiceAccountMissing => Words::seen(format!(
            "PolicyServer {server} uses it, but it does not exist, so no Pod of it can be created"
        ))
        .run(format!(
            "kubectl create serviceaccount -n {} {}",
            account.namespace, account.name
        )),
        D::ServiceAccountMismatch { used, bound } => {
            Words::seen(format!("uses {used}, but the role is bound to {bound}")).advise(
                "bind the role pps-policy to the PolicyServer's own account (chart: \
                 policy.policyServerServiceAccount)",
            )
        }
        D::LookupAllowed => Words::seen("may get persistentpodstates in all namespaces"),
        D::LookupForbidden => Words::seen(format!(
            "it may not get persistentpodstates in all namespaces, so PolicyServer {server} \
             refuses Pods"
        ))
        .run(format!(
            "kubectl create clusterrolebinding pps-policy-{server} --clusterrole=pps-policy \
             --serviceaccount={}:{}",
            account.namespace, account.name
        )),
    }
}

fn unready_words(unready: Unready, facts: &Facts) -> Words {
    match unready {
        Unready::Stopped => {
            let server = &facts.server_name;
            Words::seen("spec.replicas is 0, so nothing answers").run(format!(
                "kubectl patch policyserver {server} --type=merge -p \
                 '{{\"spec\":{{\"replicas\":2}}}}'"
            ))
        }
        Unready::NoDeployment => Words::seen(format!(
            "has no Deployment in namespace {}",
            facts.server_namespace
        ))
        .advise("see whether Kubewarden's controller runs"),
        // A Pod ends if a module cannot be pulled, is not valid, or refuses its settings.
        Unready::Pods {
            replicas: Replicas { available, wanted },
            unavailable,
        } => Words::seen(format!(
            "{available} of {wanted} Pods are ready, {unavailable} are unavailable"
        ))
        .advise("the log of a Pod that is not ready says why")
        .run(list_server_pods(facts)),
    }
}
