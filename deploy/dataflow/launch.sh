#!/usr/bin/env bash
# Launches a job from the template that build.sh wrote.
#   PROJECT=acme-data REGION=europe-west1 BUCKET=acme-weir \
#     deploy/dataflow/launch.sh 0.1.0 shop gs://acme-weir/job.yaml [sink.parquet=gs://...]
# With UPDATE=1 the job takes the place of the running one of the same name, with its state.
set -euo pipefail

version="${1:?give the version of the template, like 0.1.0}"
name="${2:?give a name for the job, like shop}"
config="${3:?give the config, like gs://acme-weir/job.yaml}"
changes="${4:-}"
: "${PROJECT:?set PROJECT to the Google Cloud project}"
: "${REGION:?set REGION, like europe-west1}"
: "${BUCKET:?set BUCKET to the bucket of templates, without gs://}"
account="${ACCOUNT:-weir-worker@$PROJECT.iam.gserviceaccount.com}"

parameters="^|^config=$config"
if [ -n "$changes" ]; then
	parameters="$parameters|set=$changes"
fi
flags=()
if [ "${UPDATE:-0}" = 1 ]; then
	flags+=(--update)
fi
gcloud dataflow flex-template run "$name" \
	--project "$PROJECT" \
	--region "$REGION" \
	--template-file-gcs-location "gs://$BUCKET/templates/weir-$version.json" \
	--parameters "$parameters" \
	--service-account-email "$account" \
	--staging-location "gs://$BUCKET/staging" \
	--temp-location "gs://$BUCKET/temp" \
	--max-workers "${MAX_WORKERS:-4}" \
	--worker-machine-type "${MACHINE:-n2-standard-4}" \
	--disable-public-ips \
	--enable-streaming-engine \
	"${flags[@]}"
