/// What runs the policy and answers its calls.
pub trait Host {
    /// Makes one call of an operation of one of Kubewarden's host capabilities, such as
    /// `get_resource` of `kubernetes`. The payload and the answer are JSON, the error is the host's
    /// text.
    fn call(&self, capability: &str, operation: &str, payload: &str) -> Result<String, String>;
}
