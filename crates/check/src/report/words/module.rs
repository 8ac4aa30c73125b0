//! The words about a module and its registry.

use super::Words;
use crate::facts::{Facts, ModuleAnswer};
use crate::finding::Pull;

pub(super) fn words(pull: &Pull, facts: &Facts) -> Words {
    let Pull {
        host,
        answer,
        is_harmless_now,
        may_differ,
    } = pull;
    let server = &facts.server_name;
    let later = if *is_harmless_now {
        " The installed policies name it already: they run until the next start of the \
         PolicyServer."
    } else {
        ""
    };
    match answer {
        ModuleAnswer::ModuleFound => Words::seen(format!("{host} has it")),
        ModuleAnswer::ModuleNotFound => Words::seen(format!("{host} does not have it.{later}"))
            .advise("correct repository and tag of the module (chart: policy.module), or push it"),
        ModuleAnswer::RegistryNeedsCredentials(code) => Words::seen(format!(
            "{host} requires a login ({code}); the PolicyServer's Secret is not read here"
        ))
        .advise(format!(
            "see whether PolicyServer {server} has a spec.imagePullSecret"
        )),
        ModuleAnswer::RegistryUnreachable(why) => {
            let context = if *may_differ {
                " from here; the PolicyServer may reach it"
            } else {
                ""
            };
            Words::seen(format!(
                "{host} cannot be reached{context}: {why}.{later}"
            ))
            .advise(format!(
                "correct the registry's name, or let Kubewarden's namespace reach it. PolicyServer \
                 {server} has spec.sourceAuthorities for the certificate of an own authority, and \
                 spec.insecureSources for one without TLS"
            ))
        }
        ModuleAnswer::RegistryAnswerUnclear(answer) => {
            Words::seen(format!("{host} answers {answer}"))
                .advise("try again; ask who runs the registry")
        }
        ModuleAnswer::ModuleNotChecked => Words::seen(
            "the registry was not asked (--skip-registry), or the module is not in an OCI registry",
        ),
    }
}
