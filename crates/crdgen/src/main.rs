//! Prints the `CustomResourceDefinition` of PersistentPodState as YAML.

fn main() -> Result<(), yaml_serde::Error> {
    print!("{}", pps_crdgen::yaml()?);
    Ok(())
}
