//! What happens in simulated clusters.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

#[path = "simulation/addresses.rs"]
mod addresses;
#[path = "simulation/adopted.rs"]
mod adopted;
#[path = "simulation/controller.rs"]
mod controller;
#[path = "simulation/drains.rs"]
mod drains;
#[path = "simulation/governing.rs"]
mod governing;
#[path = "simulation/large.rs"]
mod large;
#[path = "simulation/limits.rs"]
mod limits;
#[path = "simulation/moves.rs"]
mod moves;
#[path = "simulation/nodes.rs"]
mod nodes;
#[path = "simulation/problems.rs"]
mod problems;
#[path = "simulation/properties.rs"]
mod properties;
#[path = "simulation/recording.rs"]
mod recording;
#[path = "simulation/worlds.rs"]
mod worlds;
