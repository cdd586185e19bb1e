{{- define "dure-member.labels" -}}
{app.kubernetes.io/name: dure, app.kubernetes.io/component: member}
{{- end }}
