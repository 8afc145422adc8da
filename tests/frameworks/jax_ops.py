"""Calls a function that JAX compiles."""
import jax
import jax.numpy as jnp
import numpy

function = jax.jit(lambda x: jax.nn.softmax(x @ x.T, axis=1).sum(0))
x = numpy.random.default_rng(1).random((64, 64), dtype=numpy.float32)
with jax.default_device(jax.devices("cpu")[0]):
    expected = numpy.asarray(jax.jit(lambda x: jax.nn.softmax(x @ x.T, axis=1).sum(0))(x))
print("platform", jax.devices()[0].platform)
print("softmax", numpy.allclose(numpy.asarray(function(jnp.asarray(x))), expected, rtol=1e-2))
