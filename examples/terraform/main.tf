output "greeting" {
  value = "hello from Terraform"
}
