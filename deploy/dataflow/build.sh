#!/usr/bin/env bash
# Builds both images, pushes them, and writes the Flex Template's specification into the bucket.
#   PROJECT=acme-data REGION=europe-west1 BUCKET=acme-weir deploy/dataflow/build.sh 0.1.0
# The builder needs roles/artifactregistry.writer on the repository and roles/storage.objectAdmin on
# the bucket. A version is used once: workers that start later must run the same code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version="${1:?give a version, like 0.1.0}"
: "${PROJECT:?set PROJECT to the Google Cloud project}"
: "${REGION:?set REGION, like europe-west1}"
: "${BUCKET:?set BUCKET to the bucket of templates, without gs://}"
repository="${REPOSITORY:-weir}"
registry="$REGION-docker.pkg.dev/$PROJECT/$repository"
image="$registry/weir:$version"
launcher="$registry/weir-template:$version"

if gcloud artifacts docker images describe "$image" --project "$PROJECT" >/dev/null 2>&1; then
	echo "build.sh: $image exists already; choose another version" >&2
	exit 2
fi
gcloud auth configure-docker "$REGION-docker.pkg.dev" --quiet
docker build --platform linux/amd64 -f deploy/Dockerfile -t "$image" .
docker push "$image"
docker build --platform linux/amd64 -f deploy/dataflow/Dockerfile \
	--build-arg "WEIR_IMAGE=$image" -t "$launcher" .
docker push "$launcher"
gcloud dataflow flex-template build "gs://$BUCKET/templates/weir-$version.json" \
	--project "$PROJECT" \
	--image "$launcher" \
	--sdk-language PYTHON \
	--metadata-file deploy/dataflow/metadata.json
echo "gs://$BUCKET/templates/weir-$version.json"
