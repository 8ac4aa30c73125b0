/// What runs the policy and answers its calls.
pub trait Host {
    /// Makes one call. `namespace` and `operation` are those of Kubewarden's host capabilities,
    /// such as `kubernetes` and `get_resource`; the payload and the answer are JSON, the error is
    /// the host's text.
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String>;
}
