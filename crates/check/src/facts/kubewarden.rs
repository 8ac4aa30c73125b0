//! Kubewarden's controller, as its webhook and its Deployment show it.

use k8s_openapi::api::admissionregistration::v1::{
    ServiceReference, ValidatingWebhookConfiguration,
};
use pps_core::is_dns_subdomain;

use super::{Facts, PolicyServer, Version, container};

/// The PolicyServer that Kubewarden's own chart makes.
pub(crate) const DEFAULT_SERVER: &str = "default";
/// The webhook with which the controller checks policies. All its charts name it so.
const WEBHOOK: &str = "kubewarden-controller-validating-webhook-configuration";
/// What the charts append to the name of the controller's Deployment for that of its Service.
const SERVICE_SUFFIX: &str = "-webhook-service";
/// The label in which the charts have the version of Kubewarden.
const VERSION_LABEL: &str = "app.kubernetes.io/version";

impl Facts {
    /// Kubewarden's namespace: where its own webhook leads, else the one that is named. Labels of
    /// Deployments say nothing: whoever may create a Deployment in some namespace can set them.
    pub(crate) fn kubewarden_namespace(&self) -> String {
        self.controller_service()
            .map(|service| service.namespace.clone())
            .filter(|namespace| is_dns_subdomain(namespace))
            .unwrap_or_else(|| self.settings.kubewarden_namespace.clone())
    }

    /// The name of the controller's Deployment. None if its webhook does not show it.
    pub(crate) fn controller_name(&self) -> Option<&str> {
        self.controller_service()?.name.strip_suffix(SERVICE_SUFFIX)
    }

    /// Whether a controller has registered itself.
    pub(crate) fn has_controller(&self) -> bool {
        self.controller_webhook().is_some()
    }

    /// The version of the controller: of the image that runs, else of the chart.
    pub(crate) fn controller_version(&self) -> Option<Version> {
        let deployment = self.controller.known();
        let image = deployment
            .and_then(container)
            .and_then(|container| container.image.as_deref());
        let labels = [
            deployment.map(|one| &one.metadata),
            self.controller_webhook().map(|one| &one.metadata),
        ];
        image.and_then(Version::of_image).or_else(|| {
            labels
                .into_iter()
                .flatten()
                .find_map(|metadata| Version::parse(metadata.labels.as_ref()?.get(VERSION_LABEL)?))
        })
    }

    /// The PolicyServer of this name.
    pub(crate) fn server_named(&self, name: &str) -> Option<&PolicyServer> {
        let mut all = self.servers.items()?.iter();
        all.find(|one| one.name() == name)
    }

    fn controller_service(&self) -> Option<&ServiceReference> {
        let mut webhooks = self.controller_webhook()?.webhooks.iter().flatten();
        webhooks.find_map(|webhook| webhook.client_config.service.as_ref())
    }

    fn controller_webhook(&self) -> Option<&ValidatingWebhookConfiguration> {
        let mut all = self.validating.items()?.iter();
        all.find(|one| one.metadata.name.as_deref() == Some(WEBHOOK))
    }
}
