output "subscription" {
  description = "For source.pubsub.subscription."
  value       = google_pubsub_subscription.events.id
}

output "releases" {
  description = "For sink.pubsub."
  value       = google_pubsub_topic.releases.id
}

output "dead" {
  description = "For dead_letters.pubsub."
  value       = google_pubsub_topic.dead.id
}

output "worker" {
  description = "The workers' account: of Dataflow's job, or of the Kubernetes service accounts."
  value       = google_service_account.worker.email
}

output "secret" {
  description = "For secret.gcp, with /versions/1 behind it once a value is added."
  value       = google_secret_manager_secret.noise.id
}
