//! Where the parts of a scenario are in its texts.

use pps_manifest::yaml::{Place, Positions};

/// Where everything of a scenario is in its texts.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) objects: Vec<Positions>,
    pub(crate) settings: Positions,
    /// By the action's index; none for actions without YAML.
    pub(crate) actions: Vec<Option<Positions>>,
}

impl Texts {
    pub(crate) fn object(&self, index: usize, field: &str) -> Option<Place> {
        Some(self.objects.get(index)?.find(field))
    }

    pub(crate) fn setting(&self, field: &str) -> Place {
        self.settings.find(field)
    }

    pub(crate) fn action(&self, index: usize, field: &str) -> Option<Place> {
        Some(self.actions.get(index)?.as_ref()?.find(field))
    }
}
