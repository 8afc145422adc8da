# The record as an image of its own, to be mounted into a service that doesn't have it. Registries of kernel caches read the labels:
#   docker build --file record.Dockerfile $(kernel-audit show record/ --labels) --tag registry.example.com/service-record:1 .
FROM scratch
COPY --chown=0:0 --chmod=755 record/ /
