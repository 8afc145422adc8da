// A structure passed by value: the parameter that a Rust `#[repr(C)]` struct meets.

// One step of the simulation. Three four-byte fields, no padding: the same bytes in
// C++ and in Rust.
struct Step {
    float dt;
    float damping;
    unsigned int n;
};

// Moves `step.n` particles for `step.dt`, then slows them by `step.damping`. The
// fourth component of both vectors is the caller's and is left alone; it makes a
// particle one aligned 16-byte load.
__global__ void advance(Step step, float4* positions, float4* velocities) {
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= step.n) return;

    float4 position = positions[i];
    float4 velocity = velocities[i];
    position.x += velocity.x * step.dt;
    position.y += velocity.y * step.dt;
    position.z += velocity.z * step.dt;
    velocity.x *= step.damping;
    velocity.y *= step.damping;
    velocity.z *= step.damping;
    positions[i] = position;
    velocities[i] = velocity;
}
