{{- define "dure-server.name" -}}
{{- if contains "dure" .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-dure" .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "dure-server.labels" -}}
{app.kubernetes.io/name: dure, app.kubernetes.io/component: server, app.kubernetes.io/instance: {{ .Release.Name }}}
{{- end }}

{{- define "dure-server.scheme" -}}
{{ ternary "https" "http" (ne .Values.tls.secret "") }}
{{- end }}

{{- define "dure-server.refuse" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.database.secret) -}}
{{- fail "several servers share one PostgreSQL; name its Secret in database.secret, or set replicas to 1" -}}
{{- end -}}
{{- if and (not .Values.tls.secret) (not .Values.insecure) -}}
{{- fail "tokens would be readable on the way; name a TLS Secret in tls.secret, or set insecure where something else encrypts" -}}
{{- end -}}
{{- if and (not .Values.tls.secret) (or .Values.tls.trustKey .Values.tls.clientCaKey) -}}
{{- fail "tls.trustKey and tls.clientCaKey are keys of tls.secret; name it" -}}
{{- end -}}
{{- end }}
