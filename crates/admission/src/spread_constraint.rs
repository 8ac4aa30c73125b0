//! Topology spread constraints that ask for more domains than a required topology leaves.

use serde_json::Value;

use crate::plan::Requirement;
use pps_core::json::list;
use pps_core::names::HOSTNAME;
use pps_core::names::successor_of;

/// A `DoNotSchedule` constraint of a Pod whose `minDomains` cannot be reached on the nodes that a
/// required label allows.
///
/// The scheduler then takes 0 for the fewest matching Pods in a domain, in place of what the other
/// domains have. So the Pod stays Pending only while [`max_skew`](Self::max_skew) matching Pods run
/// in its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreachableSpread<'a> {
    /// Index in the Pod's `spec.topologySpreadConstraints`.
    pub(crate) index: usize,
    /// The node label whose values are the domains.
    pub(crate) topology_key: &'a str,
    /// How many domains the constraint asks for: two or more.
    pub(crate) min_domains: i64,
    /// How many matching Pods, this one among them, fit into the only domain.
    pub(crate) max_skew: i64,
}

/// The topology spread constraints of a Pod's `spec` that required labels can make unsatisfiable.
///
/// A constraint with `nodeAffinityPolicy: Ignore` counts the domains of all nodes, so no required
/// label matters to it. How many domains of a key are left is known only where a required label
/// fixes that key's value.
pub(crate) fn unreachable_spreads<'a>(
    spec: &'a Value,
    required: &[Requirement],
) -> Vec<UnreachableSpread<'a>> {
    let mut unreachable = Vec::new();
    for (index, constraint) in list(&spec["topologySpreadConstraints"]).iter().enumerate() {
        let number = |field: &str| constraint[field].as_i64().unwrap_or(1);
        let min_domains = number("minDomains");
        let max_skew = number("maxSkew");
        let is_hard = constraint["whenUnsatisfiable"] == "DoNotSchedule";
        let counts_all_nodes = constraint["nodeAffinityPolicy"] == "Ignore";
        if min_domains > 1
            && is_hard
            && !counts_all_nodes
            && let Some(topology_key) = constraint["topologyKey"].as_str()
            && required
                .iter()
                .any(|required| fixes(&required.key, topology_key))
        {
            unreachable.push(UnreachableSpread {
                index,
                topology_key,
                min_domains,
                max_skew,
            });
        }
    }
    unreachable
}

/// Whether all nodes with one value of the label `given` have at most one value of the label `key`:
/// it is the same label, perhaps in its deprecated spelling, or the host name, or the zone, which
/// lies in one region.
fn fixes(given: &str, key: &str) -> bool {
    let [given, key] = [given, key].map(|key| successor_of(key).unwrap_or(key));
    given == key
        || given == HOSTNAME
        || (given == "topology.kubernetes.io/zone" && key == "topology.kubernetes.io/region")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ZONE: &str = "topology.kubernetes.io/zone";
    const REGION: &str = "topology.kubernetes.io/region";

    fn required(keys: &[&str]) -> Vec<Requirement> {
        keys.iter()
            .map(|key| Requirement {
                key: (*key).into(),
                value: "v".into(),
            })
            .collect()
    }

    fn count(constraint: &Value, keys: &[&str]) -> usize {
        unreachable_spreads(
            &json!({"topologySpreadConstraints": [constraint]}),
            &required(keys),
        )
        .len()
    }

    fn constraint(changes: &Value) -> Value {
        let mut constraint = json!({"topologyKey": ZONE, "maxSkew": 1, "minDomains": 2, "whenUnsatisfiable": "DoNotSchedule"});
        for (field, value) in changes.as_object().into_iter().flatten() {
            constraint[field] = value.clone();
        }
        constraint
    }

    #[test]
    fn only_a_constraint_that_counts_more_than_one_domain_on_allowed_nodes_is_unreachable() {
        for (changes, expected) in [
            (json!({}), 1),
            (
                json!({"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}),
                1,
            ),
            (json!({"nodeAffinityPolicy": null}), 1),
            (json!({"maxSkew": 7, "minDomains": 40}), 1),
            (json!({"nodeAffinityPolicy": "Ignore"}), 0),
            (json!({"whenUnsatisfiable": "ScheduleAnyway"}), 0),
            (json!({"minDomains": null}), 0),
            (json!({"minDomains": 1}), 0),
            (json!({"minDomains": "3"}), 0),
            (json!({"topologyKey": null}), 0),
        ] {
            assert_eq!(count(&constraint(&changes), &[ZONE]), expected, "{changes}");
        }
    }

    #[test]
    fn a_required_label_fixes_its_own_key_and_the_host_name_and_the_zone_what_they_imply() {
        let (old_zone, old_region) = (
            "failure-domain.beta.kubernetes.io/zone",
            "failure-domain.beta.kubernetes.io/region",
        );
        for (required, topology_key, expected) in [
            (ZONE, ZONE, 1),
            (old_zone, ZONE, 1),
            (ZONE, old_zone, 1),
            ("rack", "rack", 1),
            (HOSTNAME, HOSTNAME, 1),
            (HOSTNAME, ZONE, 1),
            (HOSTNAME, "rack", 1),
            (ZONE, REGION, 1),
            (old_zone, REGION, 1),
            (ZONE, old_region, 1),
            (REGION, ZONE, 0),
            (ZONE, HOSTNAME, 0),
            ("rack", ZONE, 0),
            (ZONE, "rack", 0),
        ] {
            let constraint = constraint(&json!({"topologyKey": topology_key}));
            assert_eq!(
                count(&constraint, &[required]),
                expected,
                "{required} {topology_key}"
            );
            assert_eq!(
                count(&constraint, &["disk", required]),
                expected,
                "{required} {topology_key}"
            );
            assert_eq!(count(&constraint, &[]), 0);
        }
    }

    #[test]
    fn names_the_constraint_and_the_label_that_leaves_one_domain() {
        let reachable = constraint(&json!({"minDomains": 1}));
        let spec =
            json!({"topologySpreadConstraints": [reachable, constraint(&json!({"maxSkew": 4}))]});
        let required = required(&["disk", ZONE]);
        let expected = UnreachableSpread {
            index: 1,
            topology_key: ZONE,
            min_domains: 2,
            max_skew: 4,
        };
        assert_eq!(unreachable_spreads(&spec, &required), [expected]);
    }

    #[test]
    fn a_spec_of_another_shape_has_no_constraints() {
        for spec in [
            json!(null),
            json!([]),
            json!({"topologySpreadConstraints": {"a": [1]}}),
            json!({"topologySpreadConstraints": [7, null, []]}),
        ] {
            assert_eq!(unreachable_spreads(&spec, &required(&[ZONE])), [], "{spec}");
        }
    }
}
